package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A listedMutant is one change that was chosen by hand, because it breaks a promise of the
// protocol and once survived all tests, or might have.
type listedMutant struct {
	number int
	breaks string // the promise, or the code that does not work any more
	file   string
	before string // stands in the file exactly once
	after  string
	pkg    string // "" is the file's package
	run    string // the test that fails with the change
	gone   string // instead of all but number and breaks: the reason why there is no such line
}

// mutant finds the change in the file as it is. It fails unless before stands there once.
func (l listedMutant) mutant() (mutant, error) {
	text, err := os.ReadFile(l.file)
	if err != nil {
		return mutant{}, err
	}
	if n := strings.Count(string(text), l.before); n != 1 {
		return mutant{}, fmt.Errorf("mutant %d (%s): its text stands %d times in %s, want once (has the code changed? then change list.go)", l.number, l.breaks, n, l.file)
	}
	at := strings.Index(string(text), l.before)
	return mutant{
		dir: filepath.Dir(l.file), file: l.file, line: 1 + strings.Count(string(text[:at]), "\n"),
		start: at, end: at + len(l.before), with: l.after, was: l.before, now: l.after,
	}, nil
}

// tests is the test that must fail, or with own all tests of the file's package.
func (l listedMutant) tests(own bool) []suite {
	if own {
		return []suite{{pkg: "."}}
	}
	s := suite{pkg: ".", run: "^" + l.run + "$"}
	if l.pkg != "" {
		s.pkg = l.pkg
	}
	return []suite{s}
}

// runListed tries n mutants of the list from the position from, and returns how many
// survived.
func runListed(w io.Writer, n, from int, own bool, limit time.Duration) (survivors int, err error) {
	tried, killedOf := 0, 0
	for _, l := range listed[min(max(from, 0), len(listed)):] {
		if tried == n {
			break
		}
		tried++
		if l.gone != "" {
			fmt.Fprintf(w, "%-8s %3d %s: %s\n", "gone", l.number, l.breaks, l.gone)
			continue
		}
		m, err := l.mutant()
		if err != nil {
			return survivors, err
		}
		began := time.Now()
		v, err := m.try(l.tests(own), limit)
		if err != nil {
			return survivors, err
		}
		switch v.fate {
		case invalid:
			return survivors, fmt.Errorf("mutant %d (%s) does not compile", l.number, l.breaks)
		case survived:
			survivors++
		case killed:
			killedOf++
		}
		fmt.Fprintf(w, "%-8s %3d %s: %s (%v)\n", v.fate, l.number, l.breaks, v.by, time.Since(began).Round(time.Second))
	}
	fmt.Fprintf(w, "%d listed mutants: %d killed, %d survived, %d have no such line any more\n", tried, killedOf, survivors, tried-killedOf-survivors)
	return survivors, nil
}
