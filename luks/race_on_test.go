//go:build race

package luks

// raceEnabled tells that everything takes many times as long.
const raceEnabled = true
