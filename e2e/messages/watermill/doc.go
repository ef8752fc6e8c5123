// Package watermill tests contrib/gabionmsg with brokers and consumers that are killed.
package watermill
