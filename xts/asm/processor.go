package asm

// Processor identifies the processor for measurements, which know some
// microarchitectures' limits: CPUID's vendor string, family and model. On
// other architectures and in builds without assembly it returns zero values.
func Processor() (vendor string, family, model uint32) { return identify() }
