package xts_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"log"

	"github.com/xtsdisk/xtsdisk/xts"
)

// Eight sectors of 4096 bytes from byte 1 MiB of a volume on, as dm-crypt
// encrypts them with the cipher aes-xts-plain64: numbers count 512 bytes.
func ExampleCipher_EncryptRun() {
	key := make([]byte, 64) // AES-256
	rand.Read(key)
	c, err := xts.NewCipher(key)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Wipe()

	run := xts.Run{SectorSize: 4096, Kind: xts.Plain64, First: 1 << 20 / 512, Step: 4096 / 512}
	data := bytes.Repeat([]byte("plain text, "), 8*4096/12+1)[:8*4096]
	c.EncryptRun(data, data, run) // in place
	c.DecryptRun(data, data, run)
	fmt.Printf("%s\n", data[:10])
	// Output: plain text
}

// One data unit of any length from 16 bytes, under a tweak of 16 bytes.
func ExampleCipher_Encrypt() {
	key := make([]byte, 32) // AES-128
	rand.Read(key)
	c, err := xts.NewCipher(key)
	if err != nil {
		log.Fatal(err)
	}
	tweak := xts.Plain64.Tweak(7)
	unit := []byte("some bytes that are not a whole number of blocks")[:43]
	ciphertext := make([]byte, len(unit))
	c.Encrypt(ciphertext, unit, &tweak)
	c.Decrypt(ciphertext, ciphertext, &tweak)
	fmt.Println(len(ciphertext), string(ciphertext) == string(unit))
	// Output: 43 true
}
