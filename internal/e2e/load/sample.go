package load

import (
	"fmt"
	"sync"
	"time"
)

// An errorSample keeps the first errors of a run, for messages.
type errorSample struct {
	mu    sync.Mutex
	texts []string
}

func (s *errorSample) add(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.texts) < maxExamples {
		s.texts = append(s.texts, fmt.Sprintf("%s failed: %v", time.Now().Format("15:04:05.000"), err))
	}
}
