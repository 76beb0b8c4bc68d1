package wire

// Methods that the runtime answers itself. No method of a user's entity has such a name.
const (
	// OwnMethod is what all of them begin with.
	OwnMethod = "!"
	// MethodList asks a shard, which has no entity's id, for ids. Its argument is a ListRequest, and its
	// result a ListPage.
	MethodList = "!list"
	// MethodFind is MethodList for keys of an index.
	MethodFind = "!find"
	// MethodDue is MethodList for entities with reminders: see DueKey.
	MethodDue = "!due"
	// MethodDead commits the id of its command, so that the tell with this id never runs.
	MethodDead = "!dead"
	// MethodFire runs a reminder that is due, if there is one. Its result is the Unix time in
	// milliseconds before which the entity is not to be looked at again, as a varint.
	MethodFire = "!fire"
	// MethodSchedule sets a reminder. Its argument is a DurableSchedule.
	MethodSchedule = "!schedule"
	// MethodUnschedule cancels the reminder that its argument names. Its result is a byte: 1 if there
	// was one.
	MethodUnschedule = "!unschedule"
	// MethodRetry lets the reminder that its argument names run again after it was given up. Its
	// result is that of MethodUnschedule.
	MethodRetry = "!retry"
	// MethodScheduled returns the entity's DurableReminders.
	MethodScheduled = "!scheduled"
)
