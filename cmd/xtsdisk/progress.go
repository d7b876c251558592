package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/xtsdisk/xtsdisk/device/volume"
)

// The values of --progress.
const (
	progressAuto = "auto"
	progressJSON = "json"
	progressNone = "none"
)

// barDelay is how long a job runs before a bar appears: most are over sooner.
const barDelay = time.Second

// phaseMeasure is this program's own phase, before those of package volume.
const phaseMeasure = "measure"

// phaseNames are what the bar calls the phases.
var phaseNames = map[string]string{
	phaseMeasure:     "measuring the key derivation",
	volume.PhaseKDF:  "deriving the key",
	volume.PhaseData: "copying",
	volume.PhaseSync: "making it durable",
}

// meter shows how far a job is: a bar on a terminal, or a line of JSON a
// second. set is called by the job, often; a goroutine of the meter draws.
type meter struct {
	mu    sync.Mutex
	now   volume.Progress
	phase time.Time // when the phase began

	started chan struct{} // closed by the first set
	once    sync.Once
	stop    chan struct{}
	idle    sync.WaitGroup
}

// progressLine is one line of --progress json.
type progressLine struct {
	Schema int     `json:"schema"`
	Phase  string  `json:"phase"`
	Done   int64   `json:"done"`            // bytes
	Total  *int64  `json:"total,omitempty"` // bytes, where known
	Rate   float64 `json:"rate"`            // bytes a second, of this phase
	ETA    float64 `json:"eta,omitempty"`   // seconds, where the total is known
}

// newMeter starts the display that mode asks for. Its close must be called.
func newMeter(a *app, mode string) (*meter, error) {
	name, why := level()
	a.detail("AES level %s: %s", name, why)
	m := &meter{started: make(chan struct{}), stop: make(chan struct{})}
	switch {
	case mode == progressJSON:
		m.idle.Go(func() { m.lines(a.io.err) })
	case mode != progressAuto && mode != progressNone:
		return nil, usagef("auto, json and none are", "--progress %s is not known", mode)
	case mode == progressAuto && a.io.errTTY && !a.quiet:
		m.idle.Go(func() { m.bar(a) })
	}
	return m, nil
}

// set records the state of the job; see volume.Progress.
func (m *meter) set(p volume.Progress) {
	m.mu.Lock()
	if p.Phase != m.now.Phase {
		m.phase = time.Now()
	}
	m.now = p
	m.mu.Unlock()
	m.once.Do(func() { close(m.started) })
}

// close ends the display; what it showed on the terminal is wiped.
func (m *meter) close() {
	close(m.stop)
	m.idle.Wait()
}

// state returns what to show now.
func (m *meter) state() progressLine {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := progressLine{Schema: schemaVersion, Phase: m.now.Phase, Done: m.now.Done}
	if t := time.Since(m.phase).Seconds(); t > 0 {
		l.Rate = float64(l.Done) / t
	}
	if m.now.Phase == volume.PhaseData && m.now.Total >= 0 {
		total := m.now.Total
		l.Total = &total
		if l.Rate > 0 {
			l.ETA = float64(total-l.Done) / l.Rate
		}
	}
	return l
}

func (m *meter) lines(w io.Writer) {
	enc := json.NewEncoder(w)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if m.running() {
				_ = enc.Encode(m.state())
			}
		case <-m.stop:
			if m.running() {
				_ = enc.Encode(m.state()) // the last state, so that a reader sees the end
			}
			return
		}
	}
}

func (m *meter) running() bool {
	select {
	case <-m.started:
		return true
	default:
		return false
	}
}

func (m *meter) bar(a *app) {
	select {
	case <-m.started:
	case <-m.stop:
		return
	}
	select {
	case <-time.After(barDelay):
	case <-m.stop:
		return
	}
	container := mpb.New(mpb.WithOutput(a.io.err), mpb.WithWidth(78))
	style := mpb.BarStyle().Lbound("[").Filler("=").Tip(">").Padding(" ").Rbound("]").Build()
	filler := mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
		if m.state().Total == nil {
			return nil
		}
		return style.Fill(w, s)
	})
	bar, err := container.Add(0, filler,
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return phaseNames[m.state().Phase] + " " })),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return barText(m.state()) })))
	if err != nil {
		return // no bar is no reason to fail
	}
	a.setMessages(container)
	defer func() {
		a.setMessages(nil)
		bar.Abort(true)
		container.Wait()
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l := m.state()
			// mpb ends a bar that is full: the total stays one ahead.
			total := int64(1)
			if l.Total != nil {
				total = *l.Total + 1
			}
			bar.SetTotal(total, false)
			bar.SetCurrent(min(l.Done, total-1))
		case <-m.stop:
			return
		}
	}
}

// barText is what stands right of the bar.
func barText(l progressLine) string {
	if l.Phase != volume.PhaseData {
		return ""
	}
	text := fmt.Sprintf("%9s", formatSize(l.Done))
	if l.Total != nil {
		text += " of " + formatSize(*l.Total)
	}
	text += fmt.Sprintf(" %11s/s", formatSize(int64(l.Rate)))
	if l.Total != nil && l.Rate > 0 {
		text += "  " + (time.Duration(l.ETA+0.5) * time.Second).String() + " left"
	}
	return text
}
