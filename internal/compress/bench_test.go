package compress

import (
	"fmt"
	"testing"
)

func BenchmarkCompress(b *testing.B) {
	for _, c := range codecs {
		for _, n := range []int{1 << 10, 16 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%v/%dKiB", c, n>>10), func(b *testing.B) {
				in := text(n)
				var out []byte
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					out, _ = Compress(out[:0], in, c, DefaultLevel)
				}
				b.ReportMetric(float64(n)/float64(len(out)), "ratio")
			})
		}
	}
}

func BenchmarkDecompress(b *testing.B) {
	for _, c := range codecs {
		for _, n := range []int{1 << 10, 16 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%v/%dKiB", c, n>>10), func(b *testing.B) {
				in := mustCompress(b, text(n), c)
				var out []byte
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					var err error
					if out, err = Decompress(out[:0], in, c, n); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
