package m09

import (
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"time"
)

var client = &http.Client{Timeout: 10 * time.Second}

func Pull(url string) []byte {
	for {
		body, err := pull(url)
		if err != nil {
			log.Println("pull:", err)
			time.Sleep(time.Second + rand.N(time.Second))
			continue
		}
		return body
	}
}

func pull(url string) ([]byte, error) {
	resp, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}
