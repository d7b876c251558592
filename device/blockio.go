package device

import "io"

// blockChunk is how many bytes blockIO moves at a time: large enough that a
// call costs little beside its bytes, small enough that they stay in the
// cache between the cipher and the device.
const blockChunk = 256 << 10

// blockStore moves whole blocks.
type blockStore interface {
	// readBlocks fills p, a number of blocks, from byte off. When it returns
	// fewer bytes, it returns an error.
	readBlocks(p []byte, off int64) (int, error)
	// writeBlocks writes p, a number of blocks, at byte off. It may change p
	// only if owned.
	writeBlocks(p []byte, off int64, owned bool) error
}

// blockIO serves any range of bytes on top of a blockStore: where a range
// begins or ends inside a block, the block is read, changed and written.
//
// Blocks are locked meanwhile, shared for reading and exclusively for writing.
// So two writes into one block do not lose each other's bytes, and a read
// never sees a block half rewritten, which would decrypt to noise even in
// the bytes that nobody changed.
type blockIO struct {
	block int64 // bytes
	store blockStore
	locks rangeLock
}

func (b *blockIO) lock(off, n int64, exclusive bool) *lockedRange {
	return b.locks.lock(off/b.block, roundUp(off+n, b.block)/b.block, exclusive)
}

// read fills p from off; all of it lies inside the store.
func (b *blockIO) read(p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	defer b.locks.unlock(b.lock(off, int64(len(p)), false))
	for done := 0; done < len(p); {
		pos := off + int64(done)
		start := pos - pos%b.block
		end := min(roundUp(off+int64(len(p)), b.block), start+roundUp(blockChunk, b.block))
		want := int(min(end, off+int64(len(p))) - pos)
		dst := p[done : done+want]
		var n int
		var err error
		if int64(want) == end-start {
			n, err = b.store.readBlocks(dst, start)
		} else {
			n, err = b.readPart(dst, pos, start, end)
		}
		done += n
		if n < want {
			return done, err
		}
	}
	return len(p), nil
}

// readPart fills dst from pos out of the blocks [start, end).
func (b *blockIO) readPart(dst []byte, pos, start, end int64) (int, error) {
	buf := getBuffer(int(end - start))
	defer buf.wipe()
	n, err := b.store.readBlocks(buf.b, start)
	return copy(dst, buf.b[min(pos-start, int64(n)):n]), err
}

// write writes the n bytes of p, or n zeros if p is nil, at off.
func (b *blockIO) write(p []byte, off, n int64) error {
	if n == 0 {
		return nil
	}
	defer b.locks.unlock(b.lock(off, n, true))
	for done := int64(0); done < n; {
		pos := off + done
		start := pos - pos%b.block
		end := min(roundUp(off+n, b.block), start+roundUp(blockChunk, b.block))
		step := min(end, off+n) - pos
		var err error
		if p == nil {
			err = b.writePart(nil, pos, step, start, end)
		} else if part := p[done : done+step]; step == end-start {
			err = b.store.writeBlocks(part, start, false)
		} else {
			err = b.writePart(part, pos, step, start, end)
		}
		if err != nil {
			return err
		}
		done += step
	}
	return nil
}

// writePart writes p, or n zeros, at pos, and what the blocks [start, end)
// hold around them back.
func (b *blockIO) writePart(p []byte, pos, n, start, end int64) error {
	buf := getBuffer(int(end - start))
	defer buf.wipe()
	last := end - b.block
	if pos > start || pos+n < end && last == start {
		if err := b.readBlock(buf.b[:b.block], start); err != nil {
			return err
		}
	}
	if pos+n < end && last > start {
		if err := b.readBlock(buf.b[last-start:], last); err != nil {
			return err
		}
	}
	middle := buf.b[pos-start : pos-start+n]
	if p == nil {
		clear(middle)
	} else {
		copy(middle, p)
	}
	return b.store.writeBlocks(buf.b, start, true)
}

func (b *blockIO) readBlock(p []byte, off int64) error {
	n, err := b.store.readBlocks(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// roundUp returns the smallest multiple of unit that is at least n.
func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// roundDown returns the largest multiple of unit that is at most n.
func roundDown(n, unit int64) int64 { return n / unit * unit }
