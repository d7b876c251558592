package luks

import (
	"fmt"
	"strings"
	"unicode"
)

// Summary returns the header as text for people, much as cryptsetup luksDump
// prints it. It holds no secret. Text from the header is escaped, so that it
// cannot act on a terminal.
func (h *Header) Summary() string {
	s := &summary{}
	s.line("LUKS header information")
	s.field("Version", "%d", h.Version)
	s.field("Epoch", "%d", h.SeqID)
	s.field("Header copy", "%s", h.Copy)
	s.field("Metadata area", "%d [bytes]", h.Size)
	s.field("Keyslots area", "%d [bytes]", h.Config.KeyslotsSize)
	s.field("UUID", "%s", printable(h.UUID))
	s.field("Label", "%s", or(printable(h.Label), "(no label)"))
	s.field("Subsystem", "%s", or(printable(h.Subsystem), "(no subsystem)"))
	s.field("Flags", "%s", or(printable(strings.Join(h.Config.Flags, " ")), "(no flags)"))
	if len(h.Config.Requirements) > 0 {
		s.field("Requirements", "%s", printable(strings.Join(h.Config.Requirements, " ")))
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
	for _, t := range h.Tokens {
		s.object(t.ID, t.Type, "")
		for _, id := range t.Keyslots {
			s.sub("Keyslot", "%d", id)
		}
	}
	s.line("Digests:")
	for i := range h.Digests {
		s.digest(&h.Digests[i])
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

func (s *summary) line(text string) { s.WriteString(text + "\n") }

func (s *summary) field(name, format string, args ...any) {
	fmt.Fprintf(s, "%-15s%s\n", name+":", fmt.Sprintf(format, args...))
}

func (s *summary) object(id int, kind, note string) {
	fmt.Fprintf(s, "  %d: %s%s\n", id, printable(kind), note)
}

func (s *summary) sub(name, format string, args ...any) {
	fmt.Fprintf(s, "        %-12s%s\n", name+":", fmt.Sprintf(format, args...))
}

func (s *summary) segment(g *Segment) {
	s.object(g.ID, g.Type, "")
	s.sub("offset", "%d [bytes]", g.Offset)
	if g.Size < 0 {
		s.sub("length", "(whole device)")
	} else {
		s.sub("length", "%d [bytes]", g.Size)
	}
	if g.Type == typeCrypt {
		s.sub("cipher", "%s", printable(g.Cipher))
		s.sub("sector", "%d [bytes]", g.SectorSize)
		if g.IVTweak != 0 {
			s.sub("iv tweak", "%d", g.IVTweak)
		}
	}
	if g.Integrity != nil {
		s.sub("integrity", "%s", printable(g.Integrity.Type))
	}
	if len(g.Flags) > 0 {
		s.sub("flags", "%s", printable(strings.Join(g.Flags, ", ")))
	}
	s.line("")
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
	if k.Type == typeLUKS2 {
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
	if k.Area.Hash != "" {
		s.sub("Hash", "%s", printable(k.Area.Hash))
		s.sub("Hash data", "%d [bytes]", k.Area.SectorSize)
	}
	if k.Area.ShiftSize != 0 {
		s.sub("Shift size", "%d [bytes]", k.Area.ShiftSize)
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

// hex writes bytes in rows of 16.
func (s *summary) hex(name string, b []byte) {
	const row = 16
	for name += ":"; len(b) > 0; name = "" {
		n := min(row, len(b))
		fmt.Fprintf(s, "        %-12s% x\n", name, b[:n])
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
