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

// BenchmarkReport compares the data phase of encrypt and decrypt with a plain
// copy of the same source, in memory (tmpfs), in turn: a ratio is copy time /
// job time, and the median of the rounds counts. Run it with -benchtime 1x.
func BenchmarkReport(b *testing.B) {
	w := newBench(b)
	dir, size := reportDir(b)
	w.dir = dir
	w.pass = w.write("pass", []byte(passphrase))
	writeRandom(b, w.path("plain"), size)

	encrypt, rate := w.againstCopy("plain", "volume", append([]string{"encrypt", "plain", "volume", "--json"}, cheapKDF...)...)
	w.xtsdisk(append([]string{"encrypt", "plain", "volume"}, cheapKDF...)...)
	os.Remove(w.path("plain"))
	decrypt, _ := w.againstCopy("volume", "back", "decrypt", "volume", "back", "--json")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(encrypt, "encrypt/cp")
	b.ReportMetric(decrypt, "decrypt/cp")
	b.ReportMetric(rate/(1<<20), "encrypt-MiB/s")
	b.ReportMetric(float64(size)/(1<<30), "GiB")
}

// againstCopy times a copy of src and a job that makes dst of it, in turn, and
// removes what they make. It returns the median of the ratios and the job's
// median rate in bytes a second. A first copy does not count: what a virtual
// machine's host has to provide in memory it provides to whoever comes first.
func (b *bench) againstCopy(src, dst string, job ...string) (ratio, rate float64) {
	b.tb.Helper()
	const rounds = 5
	info, err := os.Stat(b.path(src))
	if err != nil {
		b.tb.Fatal(err)
	}
	b.copyTime(src)
	var ratios, rates []float64
	for range rounds {
		plain := b.copyTime(src)
		elapsed := b.jobTime(job...)
		os.Remove(b.path(dst))
		ratios = append(ratios, plain/elapsed)
		rates = append(rates, float64(info.Size())/elapsed)
	}
	return median(ratios), median(rates)
}

// reportDir is a folder in memory and the size of an image that fits there
// three times.
func reportDir(b *testing.B) (dir string, size int64) {
	b.Helper()
	const shm = "/dev/shm"
	var fs syscall.Statfs_t
	if err := syscall.Statfs(shm, &fs); err != nil {
		b.Skipf("no tmpfs at %s: %v", shm, err)
	}
	size = 4 << 30
	for size > 64<<20 && 3*size > int64(fs.Bavail)*int64(fs.Bsize) {
		size /= 2
	}
	dir, err := os.MkdirTemp(shm, "xtsdisk-report")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir, size
}

func (b *bench) copyTime(src string) float64 {
	b.tb.Helper()
	start := time.Now()
	b.run("cp", "--reflink=never", "--sparse=never", src, "copy")
	elapsed := time.Since(start).Seconds()
	os.Remove(b.path("copy"))
	return elapsed
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
