package wire

import (
	"fmt"

	"github.com/shardgen/shardgen/internal/identity"
	"github.com/shardgen/shardgen/transport"
)

// Members are the members of the cluster, as a process knows them.
type Members interface {
	// Knows reports whether a process is a member, or was one until it left or was removed.
	Knows(a transport.Address) bool
}

// MayClientSend reports whether a process of a class that is no member may send the envelope: calls and
// tells of its own, which no member has forwarded and no turn has made, and what belongs to
// them. Answers, and the steps of a shard's move, are for members.
func MayClientSend(class identity.Class, e *Envelope, of Members) bool {
	if class != identity.Client {
		return false // operators have no part in the data plane
	}
	switch e.Type {
	case 0, TypeCancel:
		return true
	case TypeCall, TypeTell:
		return !e.Relayed() && len(e.Chain) == 0 && (len(e.Info) == 0 || mayClientSay(e.Info))
	case TypeFlush:
		// It is passed on to the member that it names, with which this one may begin a session. The
		// member may have been removed while the Flush was on its way.
		return e.Node.IsZero() || isMember(e.Node) && of.Knows(e.Node.Address)
	case TypeBarrier:
		return isMember(e.Via) // which may have left
	}
	return false
}

// mayClientSay reports whether a client may send calls that say this about themselves.
func mayClientSay(info []byte) bool {
	i, err := ParseInfo(info)
	return err == nil && i.Gateway == "" && !i.Told
}

// MissingRight says why a client may not send a call.
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
