// Package schedule computes when a reminder is due: once, on a grid of equal periods, or at the
// local times of a cron text. A [Schedule] is a plain value that is kept with its reminder, and all
// times come in as arguments.
//
// # Cron
//
// [ParseCron] reads five fields, as crontab(5) has them:
//
//	minute hour day-of-month month day-of-week
//	0-59   0-23 1-31         1-12  0-7 (0 and 7 are Sunday)
//
// A field is a list of numbers and ranges with commas between; "*" is the whole range, and "/n"
// behind a range or "*" takes every nth of it. Months and weekdays also have names of three letters.
// If neither day field begins with "*", a day must match one of them; otherwise it must match both.
//
// # Changes of the local clock
//
// The rules are those of ISC cron 4.1. If neither the minute nor the hour begins with "*", a time is
// due when the local clock first reaches or passes it. So all times that the clock skips are due at
// the jump. A time that comes twice is due the first time. Otherwise the text names an interval
// rather than times: it is due in each minute whose local time matches. So "*/15 * * * *" keeps its
// distance of 15 minutes, and "0 */2 * * *" omits a time that is skipped.
//
// No library has these rules: robfig/cron v3.0.1, adhocore/gronx v1.20.4 and hashicorp/cronexpr
// v1.1.3 omit a time that is skipped, and fire twice or late when one comes twice.
//
// The rules of zones come from the machine; on machines without them, programs use the copy linked
// into them (package time/tzdata, 450 KB).
package schedule
