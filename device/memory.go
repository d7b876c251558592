package device

import (
	"fmt"
	"io"
	"sync"
)

// memPage is the unit, in bytes, in which Memory allocates, shares and frees.
const memPage = 16 << 10

var zeroPage [memPage]byte

// page is copied before it is written once a Clone shares it.
type page struct {
	shared bool
	data   [memPage]byte
}

// Memory is a Device in memory. It reads as zeros at first and takes space
// only where it has been written, so that it may be much larger than memory.
type Memory struct {
	mu     sync.RWMutex
	pages  map[int64]*page // by page number; absent: zeros
	size   int64
	sector int
	closed bool
}

// NewMemory returns a device of size bytes that reads as zeros. It panics if
// size is negative or sectorSize is not positive.
func NewMemory(size int64, sectorSize int) *Memory {
	if size < 0 || sectorSize <= 0 {
		panic(fmt.Sprintf("device: NewMemory of %d bytes with sectors of %d", size, sectorSize))
	}
	return &Memory{pages: make(map[int64]*page), size: size, sector: sectorSize}
}

// Clone returns a device with the same contents. The two share pages until
// one of them writes, so that a clone costs little.
func (m *Memory) Clone() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := NewMemory(m.size, m.sector)
	for i, p := range m.pages {
		p.shared = true
		c.pages[i] = p
	}
	return c
}

// Resize changes the size. Bytes beyond a smaller size are lost and read as
// zeros if the device grows again.
func (m *Memory) Resize(size int64) {
	if size < 0 {
		panic(fmt.Sprintf("device: Memory.Resize to %d bytes", size))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.size; size < old {
		m.zero(size, old-size)
	}
	m.size = size
}

// ReadAt implements Device.
func (m *Memory) ReadAt(p []byte, off int64) (int, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return 0, closedError("read memory")
	}
	n, err := clampRead("read memory", len(p), off, m.size)
	for done := 0; done < n; {
		i, at := (off+int64(done))/memPage, int((off+int64(done))%memPage)
		src := zeroPage[at:]
		if pg := m.pages[i]; pg != nil {
			src = pg.data[at:]
		}
		done += copy(p[done:n], src)
	}
	return n, err
}

// WriteAt implements Device.
func (m *Memory) WriteAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check("write memory", off, int64(len(p))); err != nil {
		return 0, err
	}
	for done := 0; done < len(p); {
		i, at := (off+int64(done))/memPage, int((off+int64(done))%memPage)
		done += copy(m.own(i).data[at:], p[done:])
	}
	return len(p), nil
}

// own returns page i, allocated and not shared, to be written.
func (m *Memory) own(i int64) *page {
	pg := m.pages[i]
	if pg == nil {
		pg = new(page)
	} else if pg.shared {
		pg = &page{data: pg.data}
	}
	m.pages[i] = pg
	return pg
}

// Size implements Device.
func (m *Memory) Size() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.size
}

// SectorSize implements Device.
func (m *Memory) SectorSize() int { return m.sector }

// Flush implements Device.
func (m *Memory) Flush() error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.check("flush memory", 0, 0)
}

// Discard implements Device: what is discarded reads as zeros.
func (m *Memory) Discard(off, n int64) error { return m.WriteZeroes(off, n) }

// WriteZeroes implements Device and frees the whole pages of the range.
func (m *Memory) WriteZeroes(off, n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check("zero memory", off, n); err != nil {
		return err
	}
	m.zero(off, n)
	return nil
}

func (m *Memory) zero(off, n int64) {
	for end := off + n; off < end; {
		i, at := off/memPage, off%memPage
		step := min(memPage-at, end-off)
		if step == memPage {
			delete(m.pages, i)
		} else if m.pages[i] != nil {
			clear(m.own(i).data[at : at+step])
		}
		off += step
	}
}

// NextExtent implements Extenter, in pages of 16 KiB.
func (m *Memory) NextExtent(off int64) (Extent, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.check("extent of memory", off, 1); err != nil {
		return Extent{}, err
	}
	if m.pages[off/memPage] == nil {
		end := m.size
		for i := range m.pages { // not page by page: there may be very many that are not there
			if next := i * memPage; next > off {
				end = min(end, next)
			}
		}
		return Extent{Off: off, Len: end - off, Hole: true}, nil
	}
	end := off
	for end < m.size && m.pages[end/memPage] != nil {
		end += memPage - end%memPage
	}
	return Extent{Off: off, Len: min(end, m.size) - off}, nil
}

// Close implements Device. The contents stay readable through clones only.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

func (m *Memory) check(op string, off, n int64) error {
	if m.closed {
		return closedError(op)
	}
	return checkRange(op, off, n, m.size)
}

// clampRead gives how many of n bytes at off a device of size bytes has, and
// the error that goes with them by io.ReaderAt.
func clampRead(op string, n int, off, size int64) (int, error) {
	switch {
	case off < 0:
		return 0, checkRange(op, off, int64(n), size)
	case n == 0:
		return 0, nil
	case off >= size:
		return 0, io.EOF
	case int64(n) > size-off:
		return int(size - off), io.EOF
	}
	return n, nil
}
