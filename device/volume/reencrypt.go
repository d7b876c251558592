package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/internal/secret"
	"github.com/xtsdisk/xtsdisk/internal/sector"
	"github.com/xtsdisk/xtsdisk/luks"
)

// A volume in the middle of a reencryption is read as it would be after its
// recovery, without that being written: where a hot zone was being rewritten,
// an overlay gives what recovery would write there.

// hotZone carries out the plan of a hot zone, when it is read.
type hotZone struct {
	*luks.HotZone
	old, new coder
	head     io.ReaderAt // the file or device of the header, with checksums or journal
}

// coder is how a hot zone is encrypted; without a cipher not at all.
type coder struct {
	cipher sector.Cipher
	iv     uint64 // of the zone's first byte
}

func newCoder(s luks.Segment, key []byte) (coder, error) {
	p, err := segmentPayload(s, key, false)
	if err != nil {
		return coder{}, err
	}
	return coder{p.cipher, p.ivSector}, nil
}

func (c coder) decrypt(b []byte, off int64) {
	if c.cipher != nil {
		c.cipher.Decrypt(b, b, c.iv+uint64(off)/sector.UnitSize)
	}
}

func (c coder) encrypt(b []byte, off int64) {
	if c.cipher != nil {
		c.cipher.Encrypt(b, b, c.iv+uint64(off)/sector.UnitSize)
	}
}

// reencryptPayload is the payload of a volume in reencryption.
func reencryptPayload(v *luks.Volume, plan *luks.Reencryption) (*payload, error) {
	list, err := v.Segments()
	if err != nil {
		return nil, err
	}
	p, err := partsPayload(list, v.SegmentKey, false)
	if err != nil || plan.Hot == nil {
		return p, err
	}
	z := &hotZone{HotZone: plan.Hot}
	if z.old, err = newCoder(z.Old, v.SegmentKey(plan.Old)); err == nil {
		z.new, err = newCoder(z.New, v.SegmentKey(plan.New))
	}
	p.hot = z
	if err != nil {
		p.wipe()
		return nil, err
	}
	return p, nil
}

func (z *hotZone) wipe() {
	for _, c := range []coder{z.old, z.new} {
		if c.cipher != nil {
			c.cipher.Wipe()
		}
	}
}

// checkReencryption says what is special about the volume, and that it can only
// be read. dataSize is that of the file or device with the data, or -1: a stream.
func (r *run) checkReencryption(path string, h *luks.Header, dataSize int64, o OpenOptions) error {
	plan, err := h.Reencryption()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if plan == nil {
		return nil
	}
	if o.Writable {
		return fmt.Errorf("%s: %w requirement %q: while a volume is being reencrypted it can only be read", path, ErrUnsupported, plan.Requirement)
	}
	if plan.Hot != nil && dataSize < 0 {
		return fmt.Errorf("%s: %w requirement %q: its reencryption was broken off, and a stream has no places to recover it from", path, ErrUnsupported, plan.Requirement)
	}
	switch z := plan.Hot; {
	case z == nil:
		r.warnf("%s is being reencrypted (mode %s); it is read as it stands, and not changed", path, plan.Mode)
	case z.Protection == "none":
		r.warnf("%s is being reencrypted (mode %s), which was broken off; %d bytes of its data at byte %d are lost (resilience none)", path, plan.Mode, z.New.Size, z.New.Offset)
	default:
		r.warnf("%s is being reencrypted (mode %s), which was broken off; the %d bytes of its data at byte %d are recovered (%s) as they are read, and nothing is changed",
			path, plan.Mode, z.New.Size, z.New.Offset, z.Protection)
	}
	if plan.Resilience == "none" && plan.Hot == nil {
		r.warnf("%s: its reencryption has no protection (resilience none): if it did not end properly, a part of the data is lost, which nothing shows", path)
	}
	return nil
}

// recovered is d with the hot zone as recovery would leave it.
func (p *payload) recovered(d device.Device) device.Device {
	if p.hot == nil {
		return d
	}
	z := p.hot
	return device.NewOverlay(d, device.Patch{
		Off: z.New.Offset, Len: z.New.Size, Unit: z.Block,
		Read: func(b []byte, off int64) error { return z.read(d, b, off) },
	})
}

// read fills b, whole blocks, with the zone from off on as it is to become.
func (z *hotZone) read(d io.ReaderAt, b []byte, off int64) error {
	switch z.Protection {
	case "checksum":
		return z.readChecked(d, b, off)
	case "journal":
		if err := readFull(z.head, b, z.Area.Offset+off, "journal"); err != nil {
			return err
		}
	case "datashift":
		if err := readFull(d, b, z.Old.Offset+off, "data before its shift"); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: %d bytes at offset %d of the data device were being rewritten, with resilience %s",
			ErrUnrecoverable, len(b), z.New.Offset+off, z.Protection)
	}
	z.old.decrypt(b, off)
	z.new.encrypt(b, off)
	return nil
}

// readFull reads all of b.
func readFull(r io.ReaderAt, b []byte, off int64, what string) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s: %d of %d bytes at offset %d", ErrTruncated, what, n, len(b), off)
	}
	return err
}

// readChecked is read where the area has a checksum of every block as it was.
func (z *hotZone) readChecked(d io.ReaderAt, b []byte, off int64) error {
	if err := readFull(d, b, z.New.Offset+off, "data being rewritten"); err != nil {
		return err
	}
	h := z.NewHash()
	size := int64(h.Size())
	sums := make([]byte, int64(len(b)/z.Block)*size)
	if err := readFull(z.head, sums, z.Area.Offset+off/int64(z.Block)*size, "checksums"); err != nil {
		return err
	}
	c := &checker{hotZone: z, was: make([]byte, z.Block), mix: make([]byte, z.Block)}
	defer c.wipe()
	c.matches = func(block, sum []byte) bool {
		h.Reset()
		h.Write(block)
		return bytes.Equal(h.Sum(nil), sum)
	}
	for i := 0; i < len(b); i += z.Block {
		if err := c.settle(b[i:i+z.Block], sums[:size], off+int64(i)); err != nil {
			return err
		}
		sums = sums[size:]
	}
	return nil
}

// checker tells old blocks from new ones.
type checker struct {
	*hotZone
	matches  func(block, sum []byte) bool
	was, mix []byte // scratch: a block each
}

func (c *checker) wipe() {
	secret.Wipe(c.was) // plaintext, where the data was not encrypted
	secret.Wipe(c.mix)
}

// settle makes a block new. The checksum is that of the old block, and tells
// every state from damage: a block that is new gives it when it is turned back,
// one that was torn when only the sectors that are new are.
func (c *checker) settle(block, sum []byte, off int64) error {
	if c.matches(block, sum) {
		c.old.decrypt(block, off)
		c.new.encrypt(block, off)
		return nil
	}
	copy(c.was, block)
	c.new.decrypt(c.was, off)
	c.old.encrypt(c.was, off)
	if c.matches(c.was, sum) {
		return nil
	}
	for _, isNew := range tears(c.Block / sector.UnitSize) {
		copy(c.mix, block)
		for i := range c.Block / sector.UnitSize {
			if isNew>>i&1 != 0 {
				at := i * sector.UnitSize
				copy(c.mix[at:at+sector.UnitSize], c.was[at:])
			}
		}
		if c.matches(c.mix, sum) {
			copy(block, c.mix)
			c.old.decrypt(block, off)
			c.new.encrypt(block, off)
			return nil
		}
	}
	return fmt.Errorf("%w: %d bytes at offset %d of the data device are neither what was there nor what was to be written", ErrUnrecoverable, c.Block, c.New.Offset+off)
}

// tears returns which of n sectors of a block can be new where not all or none
// are: a bit each, the likely ones first, which are those of a write that was
// cut at one place. n is 8 at most.
func tears(n int) []uint {
	var out []uint
	all := uint(1)<<n - 1
	for i := 1; i < n; i++ {
		head := uint(1)<<i - 1
		out = append(out, head, all&^head)
	}
	for m := uint(1); m < all; m++ {
		low := m + 1
		if high := (^m & all) + 1; low&(low-1) != 0 && high&(high-1) != 0 {
			out = append(out, m)
		}
	}
	return out
}
