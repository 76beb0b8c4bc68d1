package wire

// Methods that the runtime answers itself. No method of a user's entity has such a name.
const (
	// OwnMethod is the prefix of these methods' names.
	OwnMethod = "!"
	// MethodList asks a shard for ids; the call names no entity. Its argument is a ListRequest, and
	// its result a ListPage.
	MethodList = "!list"
	// MethodFind is MethodList for the keys of an index.
	MethodFind = "!find"
	// MethodDue is MethodList for entities with reminders: see DueKey.
	MethodDue = "!due"
	// MethodDead records the id of a tell as applied, so that this tell never runs.
	MethodDead = "!dead"
	// MethodFire runs a reminder that is due, if there is one. Its result is a varint: the Unix
	// time in milliseconds before which the entity's reminders need not be run again.
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
