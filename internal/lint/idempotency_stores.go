package lint

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gabion-go/gabion/internal/facts"
)

// storeFact is what a file says of a store, under one rule.
type storeFact struct {
	*look
	service *Service
	name    string
	facts.Store
}

// stores makes a rule for stores one of a graph.
func stores(check func(storeFact)) func(*look) {
	return func(x *look) {
		for i := range x.Services {
			s := &x.Services[i]
			for _, name := range slices.Sorted(maps.Keys(s.Program.Stores)) {
				check(storeFact{x, s, name, s.Program.Stores[name]})
			}
		}
	}
}

func (s storeFact) path(key string) string { return "facts.stores." + s.name + "." + key }

func (s storeFact) said(key string, has bool) bool {
	return s.look.said(s.service, s.path(key), has)
}

func (s storeFact) find(key, reason, proposal string) {
	s.findAt(s.rule.Severity, s.service, s.path(key), s.name+": "+reason, proposal)
}

func (s storeFact) redis() bool {
	return s.Kind == facts.StoreRedis || s.Kind == "" && (s.MaxmemoryPolicy != "" || s.Appendfsync != "" || s.Appendonly != "" || s.Ring)
}

func (s storeFact) nats() bool {
	return s.Kind == facts.StoreNATS || s.Kind == "" && (s.SyncInterval != "" || s.Store.Replicas > 0)
}

// evicts is rule G055.
func (s storeFact) evicts() {
	if s.redis() && s.said("maxmemory_policy", s.MaxmemoryPolicy != "") && s.MaxmemoryPolicy != "noeviction" {
		s.find("maxmemory_policy", "maxmemory_policy is "+s.MaxmemoryPolicy+": when memory is full, records are dropped, and their work is done again", "set maxmemory-policy to noeviction")
	}
}

// syncsRedis is rule G056.
func (s storeFact) syncsRedis() {
	if !s.redis() {
		return
	}
	const after = ", so a crash forgets claims and results that were acknowledged, and their work is done again"
	if s.Appendonly == "no" {
		s.find("appendonly", "Redis has no append-only file"+after, "set appendonly to yes and appendfsync to always")
	} else if s.said("appendfsync", s.Appendfsync != "") && s.Appendfsync != "always" {
		s.find("appendfsync", "appendfsync is "+s.Appendfsync+after, "set appendfsync to always, or keep these records in a SQL database")
	}
}

// ring is rule G057.
func (s storeFact) ring() {
	if s.Ring {
		s.find("ring", "redis.Ring sends a key to another server when one does not answer, and that one does not know the key: its work is done again",
			"use one server, Sentinel or a cluster")
	}
}

// syncsNATS is rule G058.
func (s storeFact) syncsNATS() {
	if !s.nats() {
		return
	}
	if s.said("sync_interval", s.SyncInterval != "") && s.SyncInterval != "always" {
		s.find("sync_interval", "sync_interval is "+s.SyncInterval+": a power cut takes what was acknowledged in that time, and its work is done again", "set sync_interval: always on the servers")
	}
	if n := s.Store.Replicas; s.said("replicas", n > 0) && n < 3 {
		s.find("replicas", fmt.Sprintf("replicas: %d: the records are gone with one server's disk, or can't be written while it is away", n), "give the bucket 3 replicas")
	}
}

// oneProcess is rule G063.
func (s storeFact) oneProcess() {
	if s.Kind != facts.StoreMemory && s.Kind != facts.StoreBolt {
		return
	}
	if n := s.service.Program.Processes; s.look.said(s.service, "facts.processes", n > 0) && n > 1 {
		s.find("kind", fmt.Sprintf("%s has %d processes, and each has a store of its own (%s): a retry that reaches another process is done again", s.service.Name, n, s.Kind),
			"use a store that they share, such as postgres, redis or nats")
	}
}
