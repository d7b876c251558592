package luks

import (
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
)

// scanChunk is how many bytes of a JSON area are looked at at a time: an area
// has up to 4 MiB, most of it zeros, and a hostile disk can have ten of them.
const scanChunk = 64 << 10

// areaScan finds where the text of a JSON area ends, as it goes by.
type areaScan struct {
	at, end int64 // bytes seen; place of the first NUL
	found   bool  // the NUL
	err     error
}

var zeros [scanChunk]byte

// add takes the next bytes of the area.
func (s *areaScan) add(b []byte) {
	if !s.found {
		i := slices.Index(b, 0)
		if i < 0 {
			s.at += int64(len(b))
			return
		}
		s.found, s.end = true, s.at+int64(i)
		s.at, b = s.end, b[i:]
	}
	for len(b) > 0 && s.err == nil {
		part := b[:min(len(b), scanChunk)]
		if string(part) != string(zeros[:len(part)]) {
			i := slices.IndexFunc(part, func(c byte) bool { return c != 0 })
			s.err = corrupt("JSON area has byte 0x%02x behind its final NUL, at offset %d", part[i], s.at+int64(i))
		}
		s.at, b = s.at+int64(len(part)), b[len(part):]
	}
}

// size returns the length of the text, once the whole area has gone by.
func (s *areaScan) size() (int64, error) {
	if !s.found {
		return 0, corrupt("JSON area has no final NUL")
	}
	return s.end, s.err
}

// parseArea reads the one object of a JSON area. The area starts with it, and
// holds nothing behind it but NULs, of which there is at least one.
func parseArea(area []byte) (*jsonObject, error) {
	var s areaScan
	s.add(area)
	n, err := s.size()
	if err != nil {
		return nil, err
	}
	return parseJSON(string(area[:n]))
}

// checksums are the hash functions that a header may be protected by.
// cryptsetup writes sha256. Slow ones would let a hostile header take long.
var checksums = []string{"sha256", "sha512", "sha384", "sha1"}

// newChecksum returns the hash function of the header checksum.
func newChecksum(alg string) (hash.Hash, error) {
	if !slices.Contains(checksums, alg) {
		return nil, unsupported("hash %s as header checksum", quote(alg))
	}
	newHash, err := hashByName(alg)
	if err != nil {
		return nil, fmt.Errorf("header checksum: %w", err)
	}
	return newHash(), nil
}

// readText checks a copy, whose first bytes are given, against its checksum
// and returns the text of its JSON area. It takes no more memory than that has.
func (h *binaryHeader) readText(r io.ReaderAt, first []byte) (string, error) {
	sum, err := newChecksum(h.checksumAlg)
	if err != nil {
		return "", err
	}
	writeChecksummed(sum, first)
	var scan areaScan
	buf := make([]byte, min(scanChunk, h.size-binarySize))
	for at := int64(binarySize); at < h.size; {
		part := buf[:min(scanChunk, h.size-at)]
		n, err := readUpTo(r, part, h.offset+at)
		if err != nil {
			return "", err
		}
		at += int64(n)
		if n < len(part) {
			return "", corrupt("%s header at offset %d has %d of its %d bytes", h.copy, h.offset, at, h.size)
		}
		sum.Write(part)
		scan.add(part)
	}
	if err := h.compareChecksum(sum.Sum(nil), first); err != nil {
		return "", err
	}
	n, err := scan.size()
	if err != nil {
		return "", err
	}
	var text strings.Builder
	text.Grow(int(n))
	_, err = io.CopyBuffer(&text, io.NewSectionReader(r, h.offset+binarySize, n), buf)
	return text.String(), err
}
