package m05

import (
	"crypto/rand"
	"encoding/hex"
)

func requestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
