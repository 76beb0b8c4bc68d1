package wire

import (
	"errors"
	"fmt"

	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

// Vouched reports whether the broker's permissions confirm the sender named in a message. If the
// sender is a client or an operator, the subject must name the same process. If the sender is a
// member, the subject must be one on which only members can send. Any other message is forged.
func Vouched(m transport.Message, sender transport.Peer) bool {
	if sender.Client != (identity.Of(sender.Incarnation) != identity.Member) {
		return false
	}
	return sender.Address == m.From || m.From.IsZero() && !sender.Client
}

// ErrForged is the error of a message whose content names another sender than its subject does.
var ErrForged = errors.New("the message and its subject name different senders")

// Members tells which processes are members of the cluster.
type Members interface {
	// Knows reports whether a process is a member, or was one until it left or was removed.
	Knows(a transport.Address) bool
}

// mayClientSay reports whether a client may send a call with this Info.
func mayClientSay(info []byte) bool {
	i, err := ParseInfo(info)
	return err == nil && i.Gateway == "" && !i.Told
}

// MissingRight describes why a client may not send a call, with the remedy.
func MissingRight(from transport.Peer, e *Envelope) string {
	what := "in the name of another process"
	switch i, err := ParseInfo(e.Info); {
	case err != nil:
		return err.Error()
	case len(e.Chain) > 0:
		what = "for a turn of an entity"
	case i.Gateway != "":
		what = "for a caller of a gateway"
	case i.Told:
		what = "for a tell in a log"
	}
	return fmt.Sprintf("%s is a client, and only members make calls %s (give the process the rights of a worker: docs/security.md)", from.Name, what)
}

func isMember(p transport.Peer) bool {
	return !p.Client && identity.Of(p.Incarnation) == identity.Member
}
