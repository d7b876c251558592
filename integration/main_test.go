//go:build linux

package integration

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// program is the built xtsdisk that all tests run.
var program string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "xtsdisk-integration")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "xtsdisk")
	build := exec.Command("go", "build", "-o", program, "../cmd/xtsdisk")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// cheapKDF makes a keyslot that costs milliseconds to open.
var cheapKDF = []string{"--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"}

const passphrase = "correct horse"

// A bench is a folder with a passphrase file in which one test works.
type bench struct {
	tb   testing.TB
	dir  string
	pass string // path of the passphrase file, no newline in it
}

func newBench(tb testing.TB) *bench {
	tb.Helper()
	b := &bench{tb: tb, dir: tb.TempDir()}
	b.pass = b.write("pass", []byte(passphrase))
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) write(name string, data []byte) string {
	b.tb.Helper()
	if err := os.WriteFile(b.path(name), data, 0o600); err != nil {
		b.tb.Fatal(err)
	}
	return b.path(name)
}

func (b *bench) read(name string) []byte {
	b.tb.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil {
		b.tb.Fatal(err)
	}
	return data
}

// command is a command that runs in the bench.
func (b *bench) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = b.dir
	return cmd
}

// run runs a command and fails the test unless it exits with 0; it returns
// what the command wrote to standard output.
func (b *bench) run(name string, args ...string) []byte {
	b.tb.Helper()
	var out, msg bytes.Buffer
	cmd := b.command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &msg
	if err := cmd.Run(); err != nil {
		b.tb.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, msg.String())
	}
	return out.Bytes()
}

// xtsdisk runs the program with the bench's passphrase.
func (b *bench) xtsdisk(args ...string) []byte {
	b.tb.Helper()
	return b.run(program, append(args, "--passphrase-file", b.pass)...)
}

// random returns n bytes that differ from seed to seed.
func random(n int, seed uint64) []byte {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	data := make([]byte, n)
	if _, err := io.ReadFull(rand.NewChaCha8(key), data); err != nil {
		panic(err)
	}
	return data
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}
