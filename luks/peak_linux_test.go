//go:build !race

package luks

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

const peakHelper = "XTSDISK_TEST_PEAK"

// Eight keyslots tried in turn take the memory of one: 1.3 times the KDF's and
// 32 MiB at most, seen by the system as the peak of a process of its own.
func TestPeakMemory(t *testing.T) {
	const kib, slots = 192 << 10, 8
	if path := os.Getenv(peakHelper); path != "" {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(t.Context(), f, -1, []byte("wrong"), UnlockOptions{Slot: AnySlot})
		fmt.Println(err)
		peak, _ := field(os.DirFS("/"), "proc/self/status", "VmHWM:")
		fmt.Println("peak", peak)
		return
	}
	have, _ := AvailableMemory()
	testenv.Feature(t, have >= 1<<30, "1 GiB of memory")
	passphrases := make([]string, slots)
	for i := range passphrases {
		passphrases[i] = fmt.Sprint(i)
	}
	image, _ := manySlots(t, passphrases...)
	editJSON(t, image, func(text string) string {
		return strings.ReplaceAll(text, `"kdf":{"type":"pbkdf2","hash":"sha256","iterations":1000,`,
			fmt.Sprintf(`"kdf":{"type":"argon2id","time":1,"memory":%d,"cpus":4,`, kib))
	})
	cmd := exec.Command(os.Args[0], "-test.run", "^TestPeakMemory$", "-test.v")
	cmd.Env = append(os.Environ(), peakHelper+"="+tempFile(t, image))
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("tried keyslot 0, 1, 2, 3, 4, 5, 6, 7")) {
		t.Fatalf("%v: %s", err, out)
	}
	var peak int
	if _, err := fmt.Sscanf(string(out[bytes.Index(out, []byte("peak ")):]), "peak %d", &peak); err != nil {
		t.Fatal(err)
	}
	if most := kib*13/10 + 32<<10; peak > most {
		t.Errorf("%d KiB at the peak, more than %d", peak, most)
	}
	t.Logf("%d KiB at the peak, %.2f of one KDF", peak, float64(peak)/kib)
}
