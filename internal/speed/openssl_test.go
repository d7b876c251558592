package speed

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// openSSL is the name of OpenSSL in place of a level's. It takes part in the
// turns as a process of its own, testdata/openssl.c, which calls libcrypto and
// times itself: no cgo, and no start of a program in the measured time.
const openSSL = "openssl"

type opensslProcess struct {
	in  io.Writer
	out *bufio.Reader
}

// startOpenSSL compiles and starts the peer; where that can't be the error
// says why.
func startOpenSSL(tb testing.TB) (*opensslProcess, error) {
	tb.Helper()
	if runtime.GOOS != "linux" {
		return nil, errors.New("the peer is written for Linux")
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return nil, err
	}
	program := filepath.Join(tb.TempDir(), "openssl")
	if out, err := exec.Command(gcc, "-O2", "-o", program, "testdata/openssl.c", "-ldl").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile the peer: %v: %s", err, out)
	}
	cmd := exec.Command(program)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var msg strings.Builder
	cmd.Stderr = &msg
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	tb.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	p := &opensslProcess{in, bufio.NewReader(out)}
	if _, err := p.ask(Case{KeyBits: 256, Size: 16}, 16, 0); err != nil {
		return nil, fmt.Errorf("libcrypto: %w", err)
	}
	return p, nil
}

func (p *opensslProcess) ask(c Case, bytes, calls int) (answer string, err error) {
	decrypt := 0
	if c.Decrypt {
		decrypt = 1
	}
	if _, err := fmt.Fprintf(p.in, "%d %d %d %d %d\n", c.KeyBits, decrypt, c.Size, bytes, calls); err != nil {
		return "", err
	}
	answer, err = p.out.ReadString('\n')
	return strings.TrimSpace(answer), err
}

// time is a Peer.
func (p *opensslProcess) time(c Case, bytes, calls int) (e Elsewhere, err error) {
	answer, err := p.ask(c, bytes, calls)
	if err != nil {
		return e, err
	}
	_, err = fmt.Sscan(answer, (*int64)(&e.Time), &e.Before, &e.After)
	return e, err
}

// The peer does the work of the levels: the same bytes come out.
func TestOpenSSLDoesTheSameWork(t *testing.T) {
	testenv.Tool(t, "gcc")
	p, err := startOpenSSL(t)
	if err != nil {
		t.Logf("start the peer: %v", err)
		testenv.Feature(t, false, "libcrypto")
	}
	for _, c := range Matrix([]string{"generic"}, []int{128, 256}, []int{16, 512, 1420, 4096}, true) {
		if c.Level == XCrypto {
			continue
		}
		body, err := c.NewBody(3 * c.Size)
		if err != nil {
			t.Fatal(err)
		}
		body.Call()
		answer, err := p.ask(c, 3*c.Size, 0)
		if err != nil || answer != hex.EncodeToString(body.buf) {
			t.Errorf("%v: libcrypto makes other bytes (%v)", c, err)
		}
	}
	results, err := Measure(t.Context(), []Case{{Level: openSSL, KeyBits: 256, Size: 512}},
		Config{Samples: 2, SampleTime: time.Microsecond, Peers: map[string]Peer{openSSL: p.time}})
	if err != nil || results[0].MBPerS.Median <= 0 {
		t.Errorf("%+v, %v", results, err)
	}
	if _, err := p.time(Case{KeyBits: 192, Size: 512}, 512, 1); err == nil {
		t.Error("a request that libcrypto cannot serve has an answer")
	}
}
