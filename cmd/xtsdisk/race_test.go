//go:build race

package main

// raceDetector needs more memory than the small memory tests give.
const raceDetector = true
