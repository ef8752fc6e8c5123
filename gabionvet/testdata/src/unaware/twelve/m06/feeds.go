package m06

import (
	"encoding/xml"
	"fmt"
	"log"
	"net/http"
	"sync"
	"time"
)

type Feed struct {
	URL   string
	Title string `xml:"channel>title"`
	Items []struct {
		Title string `xml:"title"`
		Link  string `xml:"link"`
	} `xml:"channel>item"`
}

type Poller struct {
	mu    sync.Mutex
	feeds map[string]*Feed
	every time.Duration
}

func (p *Poller) Run(done <-chan struct{}) {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			p.round()
		}
	}
}

func (p *Poller) round() {
	p.mu.Lock()
	urls := make([]string, 0, len(p.feeds))
	for u := range p.feeds {
		urls = append(urls, u)
	}
	p.mu.Unlock()
	for _, u := range urls {
		f, err := read(u)
		if err != nil {
			log.Printf("feed %s: %v", u, err)
			continue
		}
		p.mu.Lock()
		p.feeds[u] = f
		p.mu.Unlock()
	}
}

func read(u string) (*Feed, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(u)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	f := &Feed{URL: u}
	return f, xml.NewDecoder(resp.Body).Decode(f)
}
