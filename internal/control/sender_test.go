package control

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLimit: the body of a message leaves room for the envelope in what the broker takes.
func TestLimit(t *testing.T) {
	s := &sender{env: &fakeEnv{}}
	require.Less(t, s.limit(), fakeLink{}.MaxPayload())
	require.Greater(t, s.limit(), fakeLink{}.MaxPayload()/2)
}
