//go:build linux

package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Besides the KDF, a job may take this much memory.
const maxJobMemory = 64 << 20

// The program's peak memory in a job whose KDF takes none is within bounds,
// for a source several times as large.
func TestMemoryOfJobs(t *testing.T) {
	b := newBench(t)
	writeRandom(t, b.path("plain"), 320<<20)
	for _, args := range [][]string{
		append([]string{"encrypt", "plain", "volume"}, cheapKDF...),
		{"decrypt", "volume", "back"},
	} {
		cmd := exec.Command(program, append(args, "--quiet", "--passphrase-file", b.pass)...)
		cmd.Dir, cmd.Stderr = b.dir, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		peak, err := watchMemory(cmd.Process.Pid, done)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: peak of %d MiB", args[0], peak>>20)
		if peak == 0 || peak > maxJobMemory {
			t.Errorf("%s: peak of %d MiB, at most %d", args[0], peak>>20, int64(maxJobMemory)>>20)
		}
	}
}

// watchMemory reads a process's peak of resident memory, in bytes, until it
// ends. (What wait4 reports counts the parent's memory before exec too.)
func watchMemory(pid int, done <-chan error) (peak int64, err error) {
	name := fmt.Sprintf("/proc/%d/status", pid)
	for {
		if status, err := os.ReadFile(name); err == nil {
			if _, after, ok := strings.Cut(string(status), "VmHWM:"); ok {
				var kib int64
				if _, err := fmt.Sscan(after, &kib); err == nil {
					peak = max(peak, kib<<10)
				}
			}
		}
		select {
		case err := <-done:
			return peak, err
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// BenchmarkReport compares the data phase of encrypt and decrypt, flushed where
// that means something, with a plain copy of the same source, in turn: a ratio
// is median copy time / median job time. It does so in memory (tmpfs) and on
// the disk that has the temporary folder. Run it with -benchtime 1x.
func BenchmarkReport(b *testing.B) {
	for _, p := range []place{
		{name: "tmpfs", dir: "/dev/shm", most: 4 << 30, rounds: 5},
		{name: "disk", dir: os.TempDir(), most: 512 << 20, rounds: 11, sync: true},
	} {
		b.Run(p.name, func(b *testing.B) { p.report(b) })
	}
}

// place is where the images of a comparison lie.
type place struct {
	name, dir string
	most      int64 // bytes of an image
	rounds    int
	sync      bool // a copy counts once it is durable, as a job does
}

func (p place) report(b *testing.B) {
	w := newBench(b)
	var size int64
	w.dir, size = p.folder(b)
	w.pass = w.write("pass", []byte(passphrase))
	writeRandom(b, w.path("plain"), size)

	encrypt, rate := p.againstCopy(w, "plain", "volume", append([]string{"encrypt", "plain", "volume", "--json"}, cheapKDF...)...)
	w.xtsdisk(append([]string{"encrypt", "plain", "volume"}, cheapKDF...)...)
	os.Remove(w.path("plain"))
	decrypt, _ := p.againstCopy(w, "volume", "back", "decrypt", "volume", "back", "--json")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(encrypt, "encrypt/cp")
	b.ReportMetric(decrypt, "decrypt/cp")
	b.ReportMetric(rate/(1<<20), "encrypt-MiB/s")
	b.ReportMetric(float64(size)/(1<<30), "GiB")
}

// againstCopy times a copy of src and a job that makes dst of it, in turn, and
// removes what they make. It returns the ratio of the medians and the job's
// median rate in bytes a second. A first copy does not count: what a virtual
// machine's host has to provide in memory it provides to whoever comes first.
func (p place) againstCopy(w *bench, src, dst string, job ...string) (ratio, rate float64) {
	w.tb.Helper()
	info, err := os.Stat(w.path(src))
	if err != nil {
		w.tb.Fatal(err)
	}
	p.copyTime(w, src)
	var plains, jobs []float64
	for range p.rounds {
		plains = append(plains, p.copyTime(w, src))
		jobs = append(jobs, w.jobTime(job...))
		p.clean(w, dst)
	}
	return median(plains) / median(jobs), float64(info.Size()) / median(jobs)
}

// folder is a new folder and the size of an image that fits there four times.
func (p place) folder(b *testing.B) (dir string, size int64) {
	b.Helper()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(p.dir, &fs); err != nil {
		b.Skipf("%s: %v", p.dir, err)
	}
	size = p.most
	for size > 64<<20 && 4*size > int64(fs.Bavail)*int64(fs.Bsize) {
		size /= 2
	}
	dir, err := os.MkdirTemp(p.dir, "xtsdisk-report")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir, size
}

func (p place) copyTime(w *bench, src string) float64 {
	w.tb.Helper()
	start := time.Now()
	w.run("cp", "--reflink=never", "--sparse=never", src, "copy")
	if p.sync {
		w.run("sync", "copy")
	}
	elapsed := time.Since(start).Seconds()
	p.clean(w, "copy")
	return elapsed
}

// clean removes a file, and waits until the disk has nothing of it left to do.
func (p place) clean(w *bench, name string) {
	w.tb.Helper()
	os.Remove(w.path(name))
	if p.sync {
		w.run("sync", "-f", w.dir)
	}
}

// jobTime is the data phase of a job, as the program reports it.
func (b *bench) jobTime(args ...string) float64 {
	b.tb.Helper()
	var report struct {
		Data float64 `json:"data_seconds"`
		Sync float64 `json:"sync_seconds"`
	}
	if err := json.Unmarshal(b.xtsdisk(args...), &report); err != nil {
		b.tb.Fatal(err)
	}
	return report.Data + report.Sync
}

func writeRandom(tb testing.TB, name string, size int64) {
	tb.Helper()
	f, err := os.Create(name)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := io.CopyN(f, rand.NewChaCha8([32]byte{9}), size); err != nil {
		tb.Fatal(err)
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
