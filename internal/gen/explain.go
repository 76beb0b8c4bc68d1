package gen

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

// An Explanation says what a diagnostic's code means.
type Explanation struct {
	Code  string // SG102
	Title string
	Text  string // its cause and its remedy; several lines
}

//go:embed explain.txt
var explanations string

var readExplanations = sync.OnceValue(func() []Explanation {
	var list []Explanation
	for line := range strings.Lines(explanations) {
		code, title, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(line, "SG") {
			list = append(list, Explanation{Code: code, Title: title})
		} else if len(list) > 0 {
			list[len(list)-1].Text += line
		}
	}
	for i := range list {
		list[i].Text = strings.TrimSpace(list[i].Text)
	}
	return list
})

// Codes returns the codes of all diagnostics, in the order of explain.txt.
func Codes() []string {
	var codes []string
	for _, e := range readExplanations() {
		codes = append(codes, e.Code)
	}
	return codes
}

// Explain returns the explanation of a code, written in upper or lower case. It returns false for
// an unknown code.
func Explain(code string) (Explanation, bool) {
	list := readExplanations()
	i := slices.IndexFunc(list, func(e Explanation) bool { return strings.EqualFold(e.Code, code) })
	if i < 0 {
		return Explanation{}, false
	}
	return list[i], true
}
