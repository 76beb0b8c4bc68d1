// Package etcd is a membership table in etcd. It is a module of its own, so that only its users
// depend on etcd's client.
//
//	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:2379"}})
//	table := etcd.New(client, etcd.Prefix).Members("my-cluster")
//
// The key <prefix><cluster>/version has the version. Every write is one transaction, which compares
// that key, and changes the key and the rows. The rows are JSON; this command prints them:
//
//	etcdctl get --prefix shardgen/my-cluster/
//
// Reads are linearizable. After a restore of an etcd snapshot, versions repeat: delete the table's
// keys before members start.
package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/membertable"
)

// Prefix is the usual prefix of the keys.
const Prefix = "shardgen/"

// A Store has the membership tables whose keys begin with a prefix. It is safe for concurrent use.
type Store struct {
	client *clientv3.Client
	prefix string
}

var _ membertable.Provider = (*Store)(nil)

// New returns a Store for the tables whose keys begin with prefix. It sends nothing. The caller
// must close the client.
func New(client *clientv3.Client, prefix string) *Store { return &Store{client, prefix} }

// Members implements [membertable.Provider].
func (s *Store) Members(cluster string) membertable.Table {
	return &table{client: s.client, cluster: cluster, prefix: s.prefix + cluster + "/"}
}

type table struct {
	client  *clientv3.Client
	cluster string
	prefix  string
	last    atomic.Pointer[state] // that this process read or wrote last
}

type state struct {
	version  membertable.Version
	revision int64
}

type stored struct {
	Version membertable.Version `json:"version"`
	Row     json.RawMessage     `json:"row"`
}

func (t *table) version() string { return t.prefix + "version" }

func (t *table) deleted() string { return t.prefix + "deleted" }

func decimal(v membertable.Version) string { return strconv.FormatUint(uint64(v), 10) }

// rows returns the prefix of rows' keys. An I-am-alive is at the row's key with aliveSuffix, so
// that one deletion removes both.
func (t *table) rows() string { return t.prefix + "rows/" }

func (t *table) row(id membertable.ID) string {
	return fmt.Sprintf("%s%s/%016x", t.rows(), id.Name, id.Incarnation)
}

const aliveSuffix = "/alive"

const page = 2000

// attempts bounds how often a Read starts again after a compaction.
const attempts = 3

// Read implements [membertable.Table].
func (t *table) Read(ctx context.Context, since membertable.Version) (s membertable.Snapshot, err error) {
	if err = t.check(ctx); err == nil {
		for range attempts {
			s, err = t.read(ctx, since)
			if !errors.Is(err, rpctypes.ErrCompacted) {
				break
			}
		}
		err = cause(err, store.ErrUnavailable)
	}
	if err != nil {
		return membertable.Snapshot{}, membertable.Fail(membertable.OpRead, t.cluster, err)
	}
	return s, nil
}

func (t *table) read(ctx context.Context, since membertable.Version) (membertable.Snapshot, error) {
	at, err := t.client.Txn(ctx).Then(clientv3.OpGet(t.version()), clientv3.OpGet(t.deleted())).Commit()
	if err != nil {
		return membertable.Snapshot{}, err
	}
	var now, deleted state
	for i, s := range []*state{&now, &deleted} {
		for _, kv := range at.Responses[i].GetResponseRange().Kvs {
			version, err := strconv.ParseUint(string(kv.Value), 10, 64)
			if err != nil {
				return membertable.Snapshot{}, fmt.Errorf("key %q: %w (delete all keys of the table)", kv.Key, err)
			}
			*s = state{membertable.Version(version), kv.ModRevision}
		}
	}
	s := membertable.Snapshot{Version: now.version}
	newer := int64(0) // rows written up to this revision are not read
	if last := t.last.Load(); last != nil && last.version == since && since != 0 && deleted.version <= since && since <= now.version {
		s.Since, newer = since, last.revision
	}
	t.last.Store(&now)
	if s.Since == s.Version && s.Since != 0 {
		return s, nil
	}
	alive := make(map[string]time.Time)
	end := clientv3.GetPrefixRangeEnd(t.rows())
	for key := t.rows(); ; {
		got, err := t.client.Get(ctx, key, clientv3.WithRange(end), clientv3.WithRev(at.Header.Revision), clientv3.WithMinModRev(newer+1), clientv3.WithLimit(page))
		if err != nil {
			return membertable.Snapshot{}, err
		}
		for _, kv := range got.Kvs {
			if row, ok := strings.CutSuffix(string(kv.Key), aliveSuffix); ok {
				if at, err := time.Parse(time.RFC3339Nano, string(kv.Value)); err == nil {
					alive[row] = membertable.Time(at)
				}
				continue
			}
			var kept stored
			err := json.Unmarshal(kv.Value, &kept)
			var row membertable.Row
			if err == nil {
				row, err = membertable.Decode(kept.Row)
			}
			if err == nil && t.row(row.ID) != string(kv.Key) {
				err = fmt.Errorf("its value is the row of %v", row.ID)
			}
			if err != nil {
				return membertable.Snapshot{}, fmt.Errorf("key %q: %w (delete the key)", kv.Key, err)
			}
			row.Version = kept.Version
			s.Rows = append(s.Rows, row)
		}
		if !got.More {
			break
		}
		key = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
	for i, row := range s.Rows {
		s.Rows[i].Alive = alive[t.row(row.ID)]
	}
	slices.SortFunc(s.Rows, func(a, b membertable.Row) int { return a.ID.Compare(b.ID) })
	return s, nil
}

// Write implements [membertable.Table].
func (t *table) Write(ctx context.Context, expect membertable.Version, rows ...membertable.Row) (membertable.Version, error) {
	all, err := membertable.EncodeAll(rows)
	next := after(expect, len(rows))
	var ops []clientv3.Op // MaxRows is below etcd's limit of 128 in one transaction
	for i, data := range all {
		var value []byte
		if err == nil {
			value, err = json.Marshal(stored{next, data})
		}
		ops = append(ops, clientv3.OpPut(t.row(rows[i].ID), string(value)))
	}
	if err != nil {
		return 0, membertable.Fail(membertable.OpWrite, t.cluster, err)
	}
	return t.change(ctx, membertable.OpWrite, expect, next, ops...)
}

// Delete implements [membertable.Table].
func (t *table) Delete(ctx context.Context, expect membertable.Version, ids []membertable.ID) (membertable.Version, error) {
	if err := membertable.CheckIDs(ids); err != nil {
		return 0, membertable.Fail(membertable.OpDelete, t.cluster, err)
	}
	next := after(expect, 1)
	ops := []clientv3.Op{clientv3.OpPut(t.deleted(), decimal(next))}
	for _, id := range ids { // MaxDelete is below etcd's limit of 128 in one transaction
		ops = append(ops, clientv3.OpDelete(t.row(id), clientv3.WithPrefix()))
	}
	return t.change(ctx, membertable.OpDelete, expect, next, ops...)
}

// after returns the version after a write of n rows that expected v.
func after(v membertable.Version, n int) membertable.Version {
	if v == 0 {
		return membertable.First(time.Now())
	}
	return v + membertable.Version(n)
}

// change applies ops and sets the version to next, if the version is expect.
func (t *table) change(ctx context.Context, op string, expect, next membertable.Version, ops ...clientv3.Op) (membertable.Version, error) {
	same := clientv3.Compare(clientv3.Value(t.version()), "=", decimal(expect))
	if expect == 0 {
		same = clientv3.Compare(clientv3.CreateRevision(t.version()), "=", 0) // there is no such key
	}
	err := t.check(ctx)
	if err == nil {
		var done *clientv3.TxnResponse
		done, err = t.client.Txn(ctx).If(same).Then(append(ops, clientv3.OpPut(t.version(), decimal(next)))...).Commit()
		if err = cause(err, store.ErrUncertain); err == nil && !done.Succeeded {
			err = store.ErrConflict
		} else if err == nil {
			t.last.Store(&state{next, done.Header.Revision})
		}
	}
	if err != nil {
		return 0, membertable.Fail(op, t.cluster, err)
	}
	return next, nil
}

// Alive implements [membertable.Table].
func (t *table) Alive(ctx context.Context, id membertable.ID, at time.Time) error {
	err := membertable.CheckName(id.Name)
	if err == nil {
		err = t.check(ctx)
	}
	if err == nil {
		_, err = t.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(t.row(id)), ">", 0)).
			Then(clientv3.OpPut(t.row(id)+aliveSuffix, membertable.Time(at).Format(time.RFC3339Nano))).
			Commit()
		err = cause(err, store.ErrUncertain)
	}
	return membertable.Fail(membertable.OpAlive, t.cluster, err)
}

// check checks ctx and the cluster's name.
func (t *table) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return membertable.CheckName(t.cluster)
}

// refusals are errors of requests that were certainly not carried out.
var refusals = []error{
	rpctypes.ErrNoSpace, rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyOps, rpctypes.ErrTooManyRequests, rpctypes.ErrNoLeader,
	rpctypes.ErrUserEmpty, rpctypes.ErrAuthFailed, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision, rpctypes.ErrNotCapable,
}

// cause converts err to an error of package store. If the request may have been carried out, that
// is the parameter lost.
func cause(err, lost error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("%w: %w: %w (grant the right to the user)", store.ErrUnavailable, fs.ErrPermission, err)
	case slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(err, r) }):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", lost, err)
}
