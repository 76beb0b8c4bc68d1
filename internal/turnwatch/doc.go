// Package turnwatch counts the turns of a process by method, entity and caller while an operator
// looks, in bounded memory. A process has one [Watch] at a time, and none while nobody looks.
package turnwatch
