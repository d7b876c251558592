package speed

import (
	"time"

	"github.com/xtsdisk/xtsdisk/xts/asm"
)

// Peer is another program that takes part in the turns: it does calls times
// the work of a body of c on bytes bytes, after once that does not count, and
// tells how long that took.
type Peer func(c Case, bytes, calls int) (Elsewhere, error)

// Elsewhere is a timing by a peer.
type Elsewhere struct {
	Time time.Duration
	// Before and After are the clock, in cycles per nanosecond, that the peer
	// measured around the timing by a chain of dependent additions. It may have
	// run on another core than the limit loop did, at another clock.
	Before, After float64
}

func (p Peer) body(c Case, batch int) Body {
	bytes := c.wholeSectors(batch)
	return Body{Bytes: bytes, elsewhere: func(calls int) (Elsewhere, error) { return p(c, bytes, calls) }}
}

// onClockOf converts a rate that a peer measured at its own clock to that of
// the limits around it, so that the fraction is one of bytes per cycle.
func (s sample) onClockOf(w Elsewhere) sample {
	clock := (w.Before + w.After) / 2
	if clock == 0 || w.Before < leastValid*w.After || w.After < leastValid*w.Before {
		s.disturbed = true
		return s
	}
	s.bytesPerNS *= s.limit().cyclesPerNS / clock
	return s
}

// widest is the greatest vector width in bits that has a limit here. A peer is
// held to it, since what instructions it uses is its own business.
func widest() int {
	for _, width := range []int{512, 256, 128} {
		if asm.PortLimit(width, 14, 1) != 0 {
			return width
		}
	}
	return 0
}
