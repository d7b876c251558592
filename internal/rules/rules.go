// Package rules holds the project's own rules as tests: which package may
// import which, that public names are documented, how long files and
// functions may grow, how large the kernels' machine code is. It has no code
// of its own to import.
package rules
