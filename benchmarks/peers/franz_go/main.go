// What franz-go makes of __consumer_offsets segments: the committed offset of every group, topic and partition.
//
// franz-go does the work: batches, CRC-32C, codecs, records (kgo.ProcessFetchPartition), keys and values (kmsg), as
// monitoring tools built on it do. This program reads the files, hands them over in pieces of the size that a broker
// answers a fetch with, and keeps what a coordinator keeps: commits of open transactions apart until their marker.
// One thread, and what it prints is what ours prints:
//
//	records=5000000 keys=97856 offset_sum=12323516949
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sort"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const fetchBytes = 1 << 20

const (
	offsetCommitV0 = 0
	offsetCommit   = 1
	groupMetadata  = 2
	commitMarker   = 1
)

type slot struct {
	group, topic string
	partition    int32
}

type committed struct {
	logOffset int64
	value     kmsg.OffsetCommitValue
}

type shard struct {
	records int64
	offsets map[slot]committed
	pending map[int64]map[slot]committed // by producer id
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: franz_go FOLDER")
		os.Exit(2)
	}
	runtime.GOMAXPROCS(1)
	folders, err := filepath.Glob(filepath.Join(os.Args[1], "__consumer_offsets-*"))
	exitOn(err)
	var records, keys, offsetSum int64
	for _, folder := range folders {
		s := &shard{offsets: map[slot]committed{}, pending: map[int64]map[slot]committed{}}
		s.load(folder)
		records += s.records
		keys += int64(len(s.offsets))
		for _, c := range s.offsets {
			offsetSum += c.value.Offset
		}
	}
	fmt.Printf("records=%d keys=%d offset_sum=%d\n", records, keys, offsetSum)
}

func (s *shard) load(folder string) {
	segments, err := filepath.Glob(filepath.Join(folder, "*.log"))
	exitOn(err)
	sort.Strings(segments)
	decompressor := kgo.DefaultDecompressor()
	for _, path := range segments {
		segment, err := os.ReadFile(path)
		exitOn(err)
		for len(segment) > 0 {
			size := wholeBatches(segment)
			if size == 0 {
				break
			}
			s.fetched(segment[:size], decompressor)
			segment = segment[size:]
		}
	}
}

// wholeBatches is how many bytes of the segment one answer holds: whole batches, about fetchBytes.
func wholeBatches(segment []byte) int {
	size := 0
	for size < fetchBytes && size+12 <= len(segment) {
		end := size + 12 + int(binary.BigEndian.Uint32(segment[size+8:]))
		if end > len(segment) {
			break
		}
		size = end
	}
	return size
}

func (s *shard) fetched(batches []byte, decompressor kgo.Decompressor) {
	answer := kmsg.NewFetchResponseTopicPartition()
	answer.RecordBatches = batches
	options := kgo.ProcessFetchPartitionOpts{KeepControlRecords: true}
	partition, _ := kgo.ProcessFetchPartition(options, &answer, decompressor, nil)
	exitOn(partition.Err)
	for _, record := range partition.Records {
		s.records++
		s.replay(record)
	}
}

func (s *shard) replay(record *kgo.Record) {
	if record.Attrs.IsControl() {
		s.endTransaction(record)
		return
	}
	if len(record.Key) < 2 {
		return
	}
	switch binary.BigEndian.Uint16(record.Key) {
	case offsetCommitV0, offsetCommit:
		s.replayOffsetCommit(record)
	case groupMetadata:
		if record.Value != nil {
			value := kmsg.NewGroupMetadataValue()
			exitOn(value.ReadFrom(record.Value))
		}
	}
}

func (s *shard) replayOffsetCommit(record *kgo.Record) {
	key := kmsg.NewOffsetCommitKey()
	exitOn(key.ReadFrom(record.Key))
	at := slot{key.Group, key.Topic, key.Partition}
	if record.Value == nil {
		delete(s.offsets, at)
		for _, transaction := range s.pending {
			delete(transaction, at)
		}
		return
	}
	value := kmsg.NewOffsetCommitValue()
	exitOn(value.ReadFrom(record.Value))
	into := s.offsets
	if record.Attrs.IsTransactional() {
		into = s.pending[record.ProducerID]
		if into == nil {
			into = map[slot]committed{}
			s.pending[record.ProducerID] = into
		}
	}
	into[at] = committed{record.Offset, value}
}

func (s *shard) endTransaction(marker *kgo.Record) {
	if len(marker.Key) >= 4 && binary.BigEndian.Uint16(marker.Key[2:]) == commitMarker {
		for at, c := range s.pending[marker.ProducerID] {
			if now, ok := s.offsets[at]; !ok || c.logOffset > now.logOffset {
				s.offsets[at] = c
			}
		}
	}
	delete(s.pending, marker.ProducerID)
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
