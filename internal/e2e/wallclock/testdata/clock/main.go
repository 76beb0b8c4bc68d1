// Command clock prints how wrong its clocks are before, during and after a shift.
package main

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/wallclock"
)

func main() {
	begin := time.Now()
	fmt.Println("unix", begin.Unix())
	for _, d := range []time.Duration{time.Hour, -time.Hour, 0} {
		if err := wallclock.Shift(d); err != nil {
			fmt.Println(err)
		}
		now := time.Now()
		elapsed := now.Sub(begin) // by the monotonic clock
		wall := now.Round(0).Sub(begin.Round(0)) - elapsed
		fmt.Println("wall", wall.Round(time.Second), "monotonic", elapsed.Round(time.Minute), "right", wallclock.Now().Sub(begin.Round(0)).Round(time.Minute))
	}
}
