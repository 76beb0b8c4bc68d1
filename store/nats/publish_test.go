package natsstore

import "testing"

func TestPlainAck(t *testing.T) {
	for data, want := range map[string]uint64{
		`{"stream":"S_1","seq":12}`:                                      12,
		`{"stream":"S_1","seq":1882572361564160,"domain":"hub"}`:         1882572361564160,
		`{"stream":"S_1","seq":18446744073709551615}`:                    18446744073709551615,
		`{"stream":"S_1","seq":18446744073709551616}`:                    0,
		`{"stream":"S_1","seq":0}`:                                       0,
		`{"stream":"S_1","seq":}`:                                        0,
		`{"stream":"S_1","seq":12`:                                       0,
		`{"stream":"S_1"`:                                                0,
		`{"stream":"S_12","seq":12}`:                                     0,
		`{"stream":"S","seq":12}`:                                        0,
		`{"error":{"code":400,"err_code":10071},"stream":"S_1","seq":0}`: 0,
		`{"type":"x","stream":"S_1","seq":12}`:                           0,
		``:                                                               0,
	} {
		if got, ok := plainAck([]byte(data), "S_1"); ok != (want != 0) || ok && got != want {
			t.Errorf("plainAck(%s) = %d, %v, want %d", data, got, ok, want)
		}
	}
}
