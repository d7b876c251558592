package luks

import (
	"errors"
	"fmt"
	"io"

	"github.com/xtsdisk/xtsdisk/internal/probe"
)

// ReadHeader finds the LUKS header at the start of r, checks it, and returns
// it. size is the length of r in bytes, or negative if it is not known. Reading
// changes nothing: a damaged copy is reported in Header.Warnings, not repaired.
//
// A LUKS1 header has one copy. Of two whole copies of a LUKS2 header the one
// with the higher sequence number counts, and the primary if they are equal.
// Where the primary is damaged or gone, the secondary is looked for at each of
// its nine possible offsets and must name its own (specification, sections 2.1
// and 4.5). Where the start of r carries another
// format's signature, a secondary copy alone is what that format has not yet
// overwritten, and does not count.
//
// Errors wrap ErrNotLUKS, ErrHeaderCorrupt, ErrUnsupported (another LUKS
// version, an unknown checksum), or are those of r.
func ReadHeader(r io.ReaderAt, size int64) (*Header, error) {
	if h, found, err := readLUKS1(r, size); found {
		return h, err
	}
	primary, err := readCopy(r, size, Primary, 0)
	if err == nil {
		return newer(primary, r, size), nil
	}
	if errors.Is(err, errVersion) {
		return nil, err
	}
	secondary, second := findSecondary(r, size)
	if secondary == nil {
		return nil, noHeader(err, second)
	}
	if errors.Is(err, ErrNotLUKS) {
		if foreign := foreignSignature(r, size); foreign != "" {
			return nil, fmt.Errorf("%w: it starts as %s; what is left of a LUKS2 header at offset %d does not count",
				ErrNotLUKS, foreign, secondary.Size)
		}
	}
	secondary.warn("primary header: %v; the secondary at offset %d is used", err, secondary.Size)
	return secondary, nil
}

// Detect reports whether r holds a LUKS header and which version. It is true
// for a header that is recognised but damaged, too.
func Detect(r io.ReaderAt) (version int, ok bool) {
	var b [8]byte
	if _, err := r.ReadAt(b[:], 0); err == nil && hasMagic(b[:], Primary) {
		return int(b[offVersion])<<8 | int(b[offVersion+1]), true
	}
	if _, err := ReadHeader(r, -1); err == nil {
		return 2, true
	}
	return 0, false
}

func (h *Header) warn(format string, args ...any) {
	h.Warnings = append(h.Warnings, fmt.Sprintf(format, args...))
}

// newer returns the copy that counts, given a whole primary.
func newer(primary *Header, r io.ReaderAt, size int64) *Header {
	secondary, err := readCopy(r, size, Secondary, primary.Size)
	switch {
	case err != nil:
		primary.warn("secondary header: %v; the primary is used", err)
	case secondary.SeqID > primary.SeqID:
		secondary.warn("the primary header is older than the secondary: sequence number %d, not %d; the secondary is used", primary.SeqID, secondary.SeqID)
		return secondary
	case secondary.SeqID < primary.SeqID:
		primary.warn("the secondary header is older than the primary: sequence number %d, not %d; the primary is used", secondary.SeqID, primary.SeqID)
	}
	return primary
}

// findSecondary returns the first whole secondary copy, or the first damaged
// one's error.
func findSecondary(r io.ReaderAt, size int64) (*Header, error) {
	var damage error
	for _, off := range headerSizes {
		h, err := readCopy(r, size, Secondary, off)
		if err == nil {
			return h, nil
		}
		if damage == nil && !errors.Is(err, ErrNotLUKS) {
			damage = err
		}
		if sealed := (*sealedError)(nil); errors.As(err, &sealed) {
			return nil, err
		}
	}
	return nil, damage
}

// noHeader joins the errors of both copies. Without a primary's magic, what
// lies at the secondary's place is no header of this file's.
func noHeader(primary, secondary error) error {
	if secondary == nil {
		return primary
	}
	return fmt.Errorf("%w; secondary copy: %v", primary, secondary)
}

// foreignSignature names what else r starts with, or returns "".
func foreignSignature(r io.ReaderAt, size int64) string {
	for _, f := range probe.Identify(r, size) {
		if f.Name != "luks1" && f.Name != "luks2" {
			return f.Name
		}
	}
	return ""
}

// readCopy reads and checks one copy. ErrNotLUKS means that its magic is not
// there.
func readCopy(r io.ReaderAt, size int64, c Copy, byteOff int64) (*Header, error) {
	b := make([]byte, binarySize)
	n, err := readUpTo(r, b, byteOff)
	if err != nil {
		return nil, err
	}
	if !hasMagic(b[:n], c) {
		return nil, fmt.Errorf("%w: no LUKS magic at offset %d", ErrNotLUKS, byteOff)
	}
	if n < offVersion+2 {
		return nil, corrupt("%s header at offset %d ends after %d bytes", c, byteOff, n)
	}
	bin, err := parseBinary(b, c, byteOff)
	if err != nil {
		return nil, err
	}
	if n < len(b) {
		return nil, corrupt("%s header at offset %d has %d of its %d bytes", c, byteOff, n, bin.size)
	}
	text, err := bin.readText(r, b)
	if err != nil {
		return nil, err
	}
	h, err := parseCopy(bin, text, size)
	if err != nil {
		return nil, &sealedError{err}
	}
	return h, nil
}

// sealedError tells that a copy is damaged although its checksum is right:
// what is in it was meant, and no other place needs to be searched.
type sealedError struct{ error }

// Unwrap gives the error itself.
func (e *sealedError) Unwrap() error { return e.error }

// parseCopy checks and decodes what is in a copy.
func parseCopy(bin *binaryHeader, text string, size int64) (*Header, error) {
	o, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	h := &Header{
		Version:   2,
		UUID:      bin.uuid,
		Label:     bin.label,
		Subsystem: bin.subsystem,
		SeqID:     bin.seqID,
		Size:      bin.size,
		Copy:      bin.copy,
		json:      o,
	}
	if err := h.decodeHeader(o); err != nil {
		return nil, err
	}
	if err := h.validate(); err != nil {
		return nil, err
	}
	if size >= 0 && size < h.End() {
		h.warn("the header has %d bytes with its keyslots, but the file ends at %d", h.End(), size)
	}
	return h, nil
}

// readUpTo fills b from byteOff on; less than all of it only where r ends.
func readUpTo(r io.ReaderAt, b []byte, byteOff int64) (int, error) {
	n, err := r.ReadAt(b, byteOff)
	if n == len(b) || errors.Is(err, io.EOF) {
		return n, nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return n, fmt.Errorf("read header at offset %d: %w", byteOff, err)
}
