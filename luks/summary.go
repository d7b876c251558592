package luks

import (
	"fmt"
	"strings"
	"unicode"
)

// Summary returns the header as text for people, as cryptsetup luksDump prints
// it, tabs included. What differs is deliberate: LUKS1's first line has no
// file name, LUKS2 has a line that says which copy of the header this is, a
// segment's IV offset is shown, no line ends in a space, and warnings follow at
// the end. It holds no secret. Text from the header is escaped, so that it
// cannot act on a terminal.
func (h *Header) Summary() string {
	s := &summary{}
	if h.luks1 != nil {
		s.luks1(h.luks1)
	} else {
		s.luks2(h)
	}
	for _, w := range h.Warnings {
		s.line("Warning: " + printable(w))
	}
	return s.String()
}

// summary writes names and values in two columns.
type summary struct {
	strings.Builder
}

func (s *summary) luks1(l *luks1Header) {
	s.line("LUKS header information")
	s.line("")
	s.field("Version", "1")
	s.field("Cipher name", "%s", printable(l.cipher))
	s.field("Cipher mode", "%s", printable(l.mode))
	s.field("Hash spec", "%s", printable(l.hash))
	s.field("Payload offset", "%d", l.payload)
	s.field("MK bits", "%d", l.keyBytes*8)
	s.field("MK digest", "% x", l.digest)
	s.rows("MK salt:       \t", "               \t", l.digestSalt[:])
	s.field("MK iterations", "%d", l.digestIterations)
	s.field("UUID", "%s", printable(l.uuid))
	s.line("")
	for i := range l.slots {
		slot := &l.slots[i]
		if !slot.active {
			s.line(fmt.Sprintf("Key Slot %d: DISABLED", i))
			continue
		}
		s.line(fmt.Sprintf("Key Slot %d: ENABLED", i))
		s.line(fmt.Sprintf("\tIterations:         \t%d", slot.iterations))
		s.rows("\tSalt:               \t", "\t                      \t", slot.salt[:])
		s.line(fmt.Sprintf("\tKey material offset:\t%d", slot.material))
		s.line(fmt.Sprintf("\tAF stripes:            \t%d", slot.stripes))
	}
}

func (s *summary) luks2(h *Header) {
	s.line("LUKS header information")
	s.field("Version", "%d", h.Version)
	s.field("Epoch", "%d", h.SeqID)
	s.field("Header copy", "%s", h.Copy)
	s.field("Metadata area", "%d [bytes]", h.Size)
	s.field("Keyslots area", "%d [bytes]", h.Config.KeyslotsSize)
	s.field("UUID", "%s", printable(h.UUID))
	s.field("Label", "%s", or(printable(h.Label), "(no label)"))
	s.field("Subsystem", "%s", or(printable(h.Subsystem), "(no subsystem)"))
	s.line("Flags:       \t" + or(printable(strings.Join(h.Config.Flags, " ")), "(no flags)"))
	if len(h.Config.Requirements) > 0 {
		s.line("Requirements:\t" + printable(strings.Join(h.Config.Requirements, " ")))
	}
	s.line("")
	s.line("Data segments:")
	for i := range h.Segments {
		s.segment(&h.Segments[i])
	}
	s.line("Keyslots:")
	for i := range h.Keyslots {
		s.keyslot(h, &h.Keyslots[i])
	}
	s.line("Tokens:")
	for i := range h.Tokens {
		s.token(&h.Tokens[i])
	}
	s.line("Digests:")
	for i := range h.Digests {
		s.digest(&h.Digests[i])
	}
}

func (s *summary) line(text string) { s.WriteString(text + "\n") }

func (s *summary) field(name, format string, args ...any) {
	fmt.Fprintf(s, "%-15s\t%s\n", name+":", fmt.Sprintf(format, args...))
}

func (s *summary) object(id int, kind, note string) {
	fmt.Fprintf(s, "  %d: %s%s\n", id, printable(kind), note)
}

func (s *summary) sub(name, format string, args ...any) {
	fmt.Fprintf(s, "\t%-12s%s\n", name+":", fmt.Sprintf(format, args...))
}

// place is a line of a segment.
func (s *summary) place(name, format string, args ...any) {
	fmt.Fprintf(s, "\t%s: %s\n", name, fmt.Sprintf(format, args...))
}

func (s *summary) segment(g *Segment) {
	s.object(g.ID, g.Type, "")
	s.place("offset", "%d [bytes]", g.Offset)
	if g.Size < 0 {
		s.place("length", "(whole device)")
	} else {
		s.place("length", "%d [bytes]", g.Size)
	}
	if g.Cipher != "" {
		s.place("cipher", "%s", printable(g.Cipher))
	}
	if g.Type == typeCrypt {
		s.place("sector", "%d [bytes]", g.SectorSize)
	}
	if g.IVTweak != 0 {
		s.place("iv offset", "%d [512-byte units]", g.IVTweak)
	}
	if g.Integrity != nil {
		s.place("integrity", "%s", printable(g.Integrity.Type))
	}
	if len(g.Flags) > 0 {
		s.place("flags ", "%s", printable(strings.Join(g.Flags, ", ")))
	}
	s.line("")
}

func (s *summary) token(t *Token) {
	s.object(t.ID, t.Type, "")
	if t.Type == TokenKeyring {
		if name, err := t.description(); err == nil {
			s.place("Key description", "%s", printable(name))
		}
	}
	for _, id := range t.Keyslots {
		s.sub("Keyslot", "%d", id)
	}
}

func (s *summary) keyslot(h *Header, k *Keyslot) {
	d := h.digestOf(k.ID)
	note := ""
	if d == nil || !h.current(d) {
		note = " (unbound)"
	}
	s.object(k.ID, k.Type, note)
	s.sub("Key", "%d bits", k.KeySize*8)
	s.sub("Priority", "%s", k.Priority)
	if k.holdsKey() {
		s.sub("Cipher", "%s", printable(k.Area.Cipher))
		s.sub("Cipher key", "%d bits", k.Area.KeySize*8)
		s.kdf(k.KDF)
		s.sub("AF stripes", "%d", k.AF.Stripes)
		s.sub("AF hash", "%s", printable(k.AF.Hash))
	} else {
		s.resilience(k)
	}
	s.sub("Area offset", "%d [bytes]", k.Area.Offset)
	s.sub("Area length", "%d [bytes]", k.Area.Size)
	if d != nil {
		s.sub("Digest ID", "%d", d.ID)
	}
}

// resilience is what a reencrypt keyslot's area holds.
func (s *summary) resilience(k *Keyslot) {
	if k.Type == typeReencrypt {
		s.sub("Mode", "%s", printable(k.Mode))
		s.sub("Direction", "%s", printable(k.Direction))
	}
	s.sub("Resilience", "%s", printable(k.Area.Type))
	if k.Area.Type == "checksum" { // as in cryptsetup's, not for datashift-checksum
		s.sub("Hash", "%s", printable(k.Area.Hash))
		s.sub("Hash data", "%d [bytes]", k.Area.SectorSize)
	}
	if k.Area.ShiftSize != 0 && k.Area.Type != "datashift-checksum" {
		s.sub("Shift size", "%d[bytes]", k.Area.ShiftSize) // without a space in cryptsetup's, too
	}
}

func (s *summary) kdf(k KDF) {
	s.sub("PBKDF", "%s", printable(k.Type))
	switch {
	case k.argon2():
		s.sub("Time cost", "%d", k.Iterations)
		s.sub("Memory", "%d", k.MemoryKiB)
		s.sub("Threads", "%d", k.Threads)
	case k.Type == KDFPBKDF2:
		s.sub("Hash", "%s", printable(k.Hash))
		s.sub("Iterations", "%d", k.Iterations)
	}
	s.hex("Salt", k.Salt)
}

func (s *summary) digest(d *Digest) {
	s.object(d.ID, d.Type, "")
	if d.Type != KDFPBKDF2 {
		return
	}
	s.sub("Hash", "%s", printable(d.KDF.Hash))
	s.sub("Iterations", "%d", d.KDF.Iterations)
	s.hex("Salt", d.KDF.Salt)
	s.hex("Digest", d.Value)
}

func (s *summary) hex(name string, b []byte) {
	s.rows(fmt.Sprintf("\t%-12s", name+":"), fmt.Sprintf("\t%-12s", ""), b)
}

// rows writes bytes in rows of 16, behind first and then behind next.
func (s *summary) rows(first, next string, b []byte) {
	for lead := first; len(b) > 0; lead = next {
		n := min(16, len(b))
		fmt.Fprintf(s, "%s% x\n", lead, b[:n])
		b = b[n:]
	}
}

// printable escapes what a terminal could act on or not show.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\x%02x", r)
		}
	}
	return b.String()
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
