package device

import (
	"bytes"
	"context"
	"fmt"
)

// zeroBlock is the granularity, in bytes, at which zeros become holes: the
// block of common file systems.
const zeroBlock = 4096

// write puts the transformed chunk where it belongs. If it reports the buffer
// lost, a call to a stream that is still blocked has it.
func (c *copier) write(k chunk, out []byte, buf *buffer) (lost bool, err error) {
	if c.out == nil {
		if c.o.PunchZeros {
			return false, c.writeSparse(out, k.off)
		}
		return false, c.writeDevice(out, k.off)
	}
	if k.after != nil {
		select {
		case <-k.after:
		case <-c.ctx.Done():
			return false, context.Cause(c.ctx)
		}
	}
	n, lost, err := c.out.do(buf, len(out))
	if err != nil {
		return lost, fmt.Errorf("write output at byte %d: %w", k.off+int64(n), err)
	}
	close(k.written)
	return false, nil
}

func (c *copier) writeDevice(p []byte, off int64) error {
	if c.cached != nil {
		c.writing.Lock()
		defer c.writing.Unlock()
	}
	_, err := writeFullAt(c.ctx, c.dst.dev, p, off)
	return err
}

// cachedFile returns the regular file below d that is written through the page
// cache, and where in it d begins; nil if there is none.
func cachedFile(d Device) (f *File, base int64) {
	switch d := d.(type) {
	case *File:
		if !d.block && !d.o.Direct {
			return d, 0
		}
	case *section:
		f, base = cachedFile(d.d)
		return f, base + d.off
	}
	return nil, 0
}

// writeFresh writes data into a device that is to get holes.
func (c *copier) writeFresh(p []byte, off int64) error {
	if c.o.Fresh && c.cached != nil && len(p) >= minReserve {
		if err := c.cached.reserve(c.base+off, int64(len(p))); err != nil {
			return err
		}
	}
	return c.writeDevice(p, off)
}

// writeSparse writes p at off, and makes holes of the blocks that are zero.
func (c *copier) writeSparse(p []byte, off int64) error {
	for len(p) > 0 {
		zero, n := zeroRun(p, off)
		var err error
		if zero {
			err = c.zeros(off, int64(n))
		} else {
			err = c.writeFresh(p[:n], off)
		}
		if err != nil {
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// zeroRun tells how many bytes at the start of p, which lies at off, are in
// blocks that are all zero, or all not.
func zeroRun(p []byte, off int64) (zero bool, n int) {
	for n < len(p) {
		step := min(len(p)-n, zeroBlock-int((off+int64(n))%zeroBlock))
		z := bytes.Equal(p[n:n+step], zeroPage[:step])
		if n > 0 && z != zero {
			break
		}
		zero = z
		n += step
	}
	return zero, n
}

// zeros makes a range of the sink zero without writing it.
func (c *copier) zeros(off, n int64) error {
	if !c.o.Fresh {
		if err := c.dst.dev.WriteZeroes(off, n); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.stats.ZeroBytes += n
	c.mu.Unlock()
	return nil
}

// finish gives a sink that grows its full size if the copy ends with zeros
// that were not written.
func (c *copier) finish() error {
	d := c.dst.dev
	if d == nil || !c.o.PunchZeros || !c.o.Fresh {
		return nil
	}
	if size := d.Size(); size < c.stats.Bytes {
		return d.WriteZeroes(size, c.stats.Bytes-size)
	}
	return nil
}
