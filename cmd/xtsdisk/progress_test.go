package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/xtsdisk/xtsdisk/device/volume"
)

func TestProgressJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{io: stdio{err: &out}}
	m, err := newMeter(a, progressJSON)
	if err != nil {
		t.Fatal(err)
	}
	m.set(volume.Progress{Phase: volume.PhaseKDF, Total: -1})
	time.Sleep(1100 * time.Millisecond)
	m.set(volume.Progress{Phase: volume.PhaseData, Done: 0, Total: 100})
	time.Sleep(time.Millisecond)
	m.set(volume.Progress{Phase: volume.PhaseData, Done: 25, Total: 100})
	m.close()
	var lines []progressLine
	dec := json.NewDecoder(&out)
	for dec.More() {
		var l progressLine
		if err := dec.Decode(&l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	if len(lines) < 2 || lines[0].Phase != "kdf" || lines[0].Total != nil || lines[0].Schema != 1 {
		t.Fatalf("%+v", lines)
	}
	last := lines[len(lines)-1]
	if last.Phase != "data" || last.Done != 25 || last.Total == nil || *last.Total != 100 || last.Rate <= 0 {
		t.Fatalf("%+v", last)
	}
	if want := 75 / last.Rate; last.ETA < want*0.99 || last.ETA > want*1.01 {
		t.Errorf("ETA %v s for 75 bytes at %v a second", last.ETA, last.Rate)
	}
}

// A job that never starts, and one without a terminal, show nothing.
func TestProgressSilent(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{progressJSON, progressAuto, progressNone} {
		var out bytes.Buffer
		m, err := newMeter(&app{io: stdio{err: &out}}, mode)
		if err != nil {
			t.Fatal(err)
		}
		if mode != progressJSON {
			m.set(volume.Progress{Phase: volume.PhaseData, Done: 1, Total: 2})
		}
		m.close()
		if out.Len() > 0 {
			t.Errorf("%s: %q", mode, &out)
		}
	}
	if _, err := newMeter(&app{}, "bar"); codeOf(err, nil) != exitUsage {
		t.Errorf("unknown mode: %v", err)
	}
}

func TestBarText(t *testing.T) {
	t.Parallel()
	total := int64(4 << 20)
	text := barText(progressLine{Phase: volume.PhaseData, Done: 1 << 20, Total: &total, Rate: 1 << 20, ETA: 3})
	for _, want := range []string{"1 MiB of 4 MiB", "1 MiB/s", "3s left"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	if text := barText(progressLine{Phase: volume.PhaseData, Done: 1 << 20, Rate: 1 << 20}); strings.Contains(text, "left") {
		t.Errorf("time left without a total: %q", text)
	}
	for _, phase := range []string{phaseMeasure, volume.PhaseKDF, volume.PhaseData, volume.PhaseSync} {
		if phaseNames[phase] == "" {
			t.Errorf("phase %s has no name", phase)
		}
	}
}
