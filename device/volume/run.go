package volume

import (
	"context"
	"fmt"
	"time"

	"github.com/xtsdisk/xtsdisk/device"
)

// run is one job under way: the system it works on, its report so far and its
// listeners.
type run struct {
	system
	Report
	workers  int
	progress func(Progress)
	warn     func(string)
}

// warnf adds a warning to the report.
func (r *run) warnf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.Warnings = append(r.Warnings, text)
	if r.warn != nil {
		r.warn(text)
	}
}

func (r *run) tell(phase string, done, total int64) {
	if r.progress != nil {
		r.progress(Progress{Phase: phase, Done: done, Total: total})
	}
}

// timed adds to *sum the time that do takes, phase being told before.
func (r *run) timed(phase string, sum *time.Duration, do func() error) error {
	if phase != PhaseData { // which is told with its amounts
		r.tell(phase, 0, -1)
	}
	start := time.Now()
	err := do()
	*sum += time.Since(start)
	return err
}

// sync runs what makes data durable.
func (r *run) sync(do func() error) error { return r.timed(PhaseSync, &r.SyncTime, do) }

// copy is device.Copy in the data phase: with progress, workers and times. The
// counts are added to the report.
func (r *run) copy(ctx context.Context, dst device.Sink, src device.Source, o device.CopyOptions) (device.CopyStats, error) {
	var stats device.CopyStats
	o.Workers = r.workers
	before := r.Bytes
	total := int64(-1)
	if o.Size >= 0 {
		total = before + o.Size
	}
	o.Progress = func(done int64) { r.tell(PhaseData, before+done, total) }
	err := r.timed(PhaseData, &r.DataTime, func() (err error) {
		stats, err = device.Copy(ctx, dst, src, o)
		return err
	})
	r.Bytes += stats.Bytes
	r.HoleBytes += stats.HoleBytes
	r.ZeroBytes += stats.ZeroBytes
	r.Padding += stats.PadBytes
	return stats, err
}
