package speed

import (
	"context"
	"math"
	"slices"
	"time"
)

// Config says how to measure. Zero values take the defaults.
type Config struct {
	Batch      int           // bytes a body works on; default Case.Batch
	Samples    int           // valid samples wanted of each case; default 25
	SampleTime time.Duration // least time of one sample; default 200 µs

	// Peers are other programs, by the names that stand for a level in cases.
	Peers map[string]Peer
}

// Quartiles are the median and the spread around it.
type Quartiles struct{ Low, Median, High float64 }

// Result is what was measured for a case.
type Result struct {
	Case          Case
	MBPerS        Quartiles // 10^6 bytes a second
	BytesPerCycle Quartiles // NaN where cycles cannot be counted
	Fraction      Quartiles // of the AES-port limit around each sample; NaN where there is none

	Width        int     // bits, of the limit
	Limit        float64 // bytes per cycle: the limit as it was measured, median
	Known        float64 // bytes per cycle: what it is known to be, or the best seen
	KnownIsSeen  bool    // Known is the best seen in this run
	Valid, Taken int     // samples whose limit was valid, and all
}

// Counts tells whether enough samples were valid for the result to count.
func (r Result) Counts() bool { return math.IsNaN(r.Fraction.Median) || 2*r.Valid >= r.Taken }

// sample is one timing of a body between two measurements of the limit. What
// another program timed, perhaps on another core, is converted by the clock
// that it measured itself to the clock of the limits; disturbed tells that this
// clock was not steady.
type sample struct {
	bytesPerNS    float64
	before, after limit
	disturbed     bool
}

func (s sample) limit() limit {
	return limit{(s.before.bytesPerNS + s.after.bytesPerNS) / 2, (s.before.cyclesPerNS + s.after.cyclesPerNS) / 2}
}

// task is a case being measured.
type task struct {
	c        Case
	body     Body
	calls    int // in one sample
	width    int
	hasLimit bool
	known    float64
	samples  []sample
	valid    int
}

// Measure measures the cases in turns, a sample of each before the next of
// any, so that whatever drifts drifts for all. It takes more samples of those
// that a disturbance made invalid, up to three times as many. It stops early
// with ctx's error.
func Measure(ctx context.Context, cases []Case, cfg Config) ([]Result, error) {
	cfg = cfg.withDefaults()
	var tasks []*task
	for _, c := range cases {
		t, err := newTask(c, cfg)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	for range 3 * cfg.Samples {
		done := true
		for _, t := range tasks {
			if t.valid >= cfg.Samples {
				continue
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := t.sample(); err != nil {
				return nil, err
			}
			done = false
		}
		if done {
			break
		}
	}
	results := make([]Result, len(tasks))
	for i, t := range tasks {
		results[i] = t.result()
	}
	return results, nil
}

func (c Config) withDefaults() Config {
	if c.Samples == 0 {
		c.Samples = 25
	}
	if c.SampleTime == 0 {
		c.SampleTime = 200 * time.Microsecond
	}
	return c
}

func newTask(c Case, cfg Config) (*task, error) {
	batch := cfg.Batch
	if batch == 0 {
		batch = c.Batch()
	}
	t := &task{c: c, calls: 1, width: widthOf(c.Level)}
	var err error
	if peer, ok := cfg.Peers[c.Level]; ok {
		t.width = widest()
		t.body = peer.body(c, batch)
	} else if t.body, err = c.NewBody(batch); err != nil {
		return nil, err
	}
	if _, t.hasLimit = measureLimit(t.width, c.rounds()); t.hasLimit {
		t.known = knownLimit(t.width, c.rounds())
	}
	for {
		work, err := t.work()
		if err != nil {
			return nil, err
		}
		if work.Time >= cfg.SampleTime {
			return t, nil
		}
		t.calls *= 2
	}
}

// work does one sample's calls and times them.
func (t *task) work() (Elsewhere, error) {
	if t.body.elsewhere != nil {
		return t.body.elsewhere(t.calls)
	}
	t.body.Call() // brings back into the caches what other cases pushed out
	start := time.Now()
	for range t.calls {
		t.body.Call()
	}
	return Elsewhere{Time: time.Since(start)}, nil
}

func (t *task) sample() error {
	var s sample
	if t.hasLimit {
		s.before, _ = measureLimit(t.width, t.c.rounds())
	}
	work, err := t.work()
	if err != nil {
		return err
	}
	if t.hasLimit {
		s.after, _ = measureLimit(t.width, t.c.rounds())
	}
	s.bytesPerNS = float64(t.body.Bytes*t.calls) / float64(work.Time.Nanoseconds())
	if t.hasLimit && t.body.elsewhere != nil {
		s = s.onClockOf(work)
	}
	t.samples = append(t.samples, s)
	// Without a known value validity is judged at the end, by the best seen.
	if !t.hasLimit || t.known == 0 || s.isValid(t.known) {
		t.valid++
	}
	return nil
}

func (s sample) isValid(known float64) bool {
	return !s.disturbed && s.before.valid(known) && s.after.valid(known)
}

func (t *task) result() Result {
	r := Result{Case: t.c, Taken: len(t.samples), Valid: len(t.samples)}
	used := t.samples
	if t.hasLimit {
		r.Width, r.Known = t.width, t.known
		if r.Known == 0 {
			var limits []limit
			for _, s := range t.samples {
				limits = append(limits, s.before, s.after)
			}
			r.Known, r.KnownIsSeen = bestSeen(limits), true
		}
		valid := slices.DeleteFunc(slices.Clone(used), func(s sample) bool { return !s.isValid(r.Known) })
		if r.Valid = len(valid); r.Valid > 0 {
			used = valid
		}
	}
	var rate, perCycle, fraction, limits []float64
	for _, s := range used {
		l := s.limit()
		rate = append(rate, s.bytesPerNS*1000)
		perCycle = append(perCycle, s.bytesPerNS/l.cyclesPerNS)
		fraction = append(fraction, s.bytesPerNS/l.bytesPerNS)
		limits = append(limits, l.bytesPerCycle())
	}
	r.MBPerS = quartiles(rate)
	if !t.hasLimit {
		nan := Quartiles{math.NaN(), math.NaN(), math.NaN()}
		r.BytesPerCycle, r.Fraction, r.Limit = nan, nan, math.NaN()
		return r
	}
	r.BytesPerCycle, r.Fraction, r.Limit = quartiles(perCycle), quartiles(fraction), quantile(limits, 0.5)
	return r
}

func quartiles(v []float64) Quartiles {
	return Quartiles{quantile(v, 0.25), quantile(v, 0.5), quantile(v, 0.75)}
}

// quantile returns the value below which a share q of the values lies,
// interpolated between neighbours.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 == len(v) {
		return v[i]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}
