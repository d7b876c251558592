package device

import "sync"

// rangeLock locks ranges of numbers (sectors, blocks), shared or exclusive.
//
// Requests are kept in the order of their arrival. Each waits for the earlier
// ones that conflict with it and for no others, so that none starves, and a
// release wakes just those that have nothing left to wait for.
type rangeLock struct {
	mu          sync.Mutex
	first, last *lockedRange
}

// lockedRange is a request, held or waiting.
type lockedRange struct {
	from, to   int64 // [from, to)
	exclusive  bool
	waitsFor   int // earlier conflicting requests not yet released
	ready      chan struct{}
	prev, next *lockedRange
}

var lockedRanges = sync.Pool{New: func() any { return &lockedRange{ready: make(chan struct{}, 1)} }}

func (r *lockedRange) conflicts(o *lockedRange) bool {
	return r.from < o.to && o.from < r.to && (r.exclusive || o.exclusive)
}

// lock waits until [from, to) is free and returns the handle to release it.
func (l *rangeLock) lock(from, to int64, exclusive bool) *lockedRange {
	r := lockedRanges.Get().(*lockedRange)
	r.from, r.to, r.exclusive = from, to, exclusive
	l.mu.Lock()
	for o := l.first; o != nil; o = o.next {
		if o.conflicts(r) {
			r.waitsFor++
		}
	}
	r.prev = l.last
	if l.last != nil {
		l.last.next = r
	} else {
		l.first = r
	}
	l.last = r
	waits := r.waitsFor > 0
	l.mu.Unlock()
	if waits {
		<-r.ready
	}
	return r
}

// unlock releases what lock returned.
func (l *rangeLock) unlock(r *lockedRange) {
	l.mu.Lock()
	for o := r.next; o != nil; o = o.next {
		if o.conflicts(r) {
			if o.waitsFor--; o.waitsFor == 0 {
				o.ready <- struct{}{}
			}
		}
	}
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		l.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		l.last = r.prev
	}
	r.prev, r.next = nil, nil
	l.mu.Unlock()
	lockedRanges.Put(r)
}
