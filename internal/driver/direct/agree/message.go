package agree

import "encoding/hex"

// A Key is the SHA-256 hash of a process's public key (the SubjectPublicKeyInfo of its
// certificate).
type Key [32]byte

// A Nonce identifies one offer. Only the two processes of the offer know it.
type Nonce [16]byte

// String returns the first four bytes of the nonce in hexadecimal, for logs.
func (n Nonce) String() string { return hex.EncodeToString(n[:4]) }

// A Message is an Offer, Accept, Refusal or Renewal.
type Message interface{ message() }

// An Offer proposes a connection for a lane.
type Offer struct {
	Lane  int
	Nonce Nonce
	Key   Key
	// Address is where the sender listens, as host:port; "" if it does not listen.
	Address string
}

// An Accept asks the process that made the Offer to dial.
type Accept struct {
	Lane    int
	Nonce   Nonce
	Key     Key
	Address string
}

// A Refusal says why an Offer is not accepted.
type Refusal struct {
	Lane   int
	Nonce  Nonce
	Reason string
}

// A Renewal shows that the sender can still be heard through the broker.
type Renewal struct{}

func (Offer) message()   {}
func (Accept) message()  {}
func (Refusal) message() {}
func (Renewal) message() {}
