/** The rules of a lane: each one, and all of them by model. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import * as Lane from "#delivery/outbox/LaneState"
import * as Sweeps from "../../../../test/sweeps.ts"

const lane = (state: Partial<Lane.LaneState>): Lane.LaneState => ({ ...Lane.empty, ...state })

describe("a lane", () => {
  it("lets one publish go and the next ones wait", () => {
    const [first, one] = Lane.arrive(Lane.empty, false)
    const [second, two] = Lane.arrive(one, false)
    assert.deepStrictEqual([first, second], ["go", "wait"])
    assert.deepStrictEqual(two, lane({ turn: true, waiting: 1 }))
  })
  it("stores what arrives behind stored events, behind a commit under way, or with `storeFirst`", () => {
    assert.strictEqual(Lane.arrive(lane({ stored: true }), false)[0], "store")
    assert.strictEqual(Lane.arrive(lane({ writing: 2 }), false)[0], "store")
    assert.strictEqual(Lane.arrive(Lane.empty, true)[0], "store")
  })
  it("lets a publish wait for the turn even when events are to be stored first", () => {
    assert.strictEqual(Lane.arrive(lane({ turn: true, stored: true }), true)[0], "wait")
  })
  it("gives the turn to the next after an acknowledgement, and to none without one", () => {
    assert.deepStrictEqual(Lane.turnEnded(lane({ turn: true, waiting: 2 }), "acknowledged"), [
      "go",
      lane({ turn: true, waiting: 1 })
    ])
    assert.deepStrictEqual(Lane.turnEnded(lane({ turn: true }), "acknowledged"), ["none", Lane.empty])
  })
  it("stores the failed event and all that wait behind it", () => {
    assert.deepStrictEqual(Lane.turnEnded(lane({ turn: true, waiting: 2 }), "failed"), [
      "store",
      lane({ writing: 3 })
    ])
  })
  it("stores those that wait when something was stored meanwhile", () => {
    assert.deepStrictEqual(Lane.turnEnded(lane({ turn: true, waiting: 1, stored: true }), "acknowledged"), [
      "store",
      lane({ writing: 1, stored: true })
    ])
  })
  it("begins one drain for a commit, and keeps it going while commits come", () => {
    const [begin, first] = Lane.committed(lane({ writing: 2 }), 1)
    assert.isTrue(begin)
    const [again, second] = Lane.committed(first, 1)
    assert.isFalse(again)
    assert.deepStrictEqual(second, lane({ stored: true, stale: true, draining: true }))
    assert.isFalse(Lane.drained(second, true)[0], "committed since the read")
    assert.deepStrictEqual(Lane.drained(Lane.reading(second), true), [true, Lane.empty])
    assert.isFalse(Lane.drained(Lane.reading(second), false)[0], "there is more")
  })
  it("is forgotten only when nothing is left of it", () => {
    assert.isTrue(Lane.isIdle(Lane.empty))
    for (const state of [
      { turn: true },
      { waiting: 1 },
      { writing: 1 },
      { stored: true },
      { draining: true }
    ]) {
      assert.isFalse(Lane.isIdle(lane(state)))
    }
    assert.isTrue(Lane.isIdle(lane({ stale: true })))
  })
})

/** A lane with what its counts stand for: who waits, what is written, what is stored, what the broker has. */
class World {
  state = Lane.empty
  next = 1
  turn: number | undefined
  waiters: Array<number> = []
  queue: Array<number> = []
  committing: Array<number> = []
  store: Array<number> = []
  broker: Array<number> = []
  accepted = new Set<number>()

  arrive(storeFirst: boolean): void {
    const id = this.next++
    const [arrival, state] = Lane.arrive(this.state, storeFirst)
    this.state = state
    if (arrival === "go") this.turn = id
    else if (arrival === "wait") this.waiters.push(id)
    else this.queue.push(id)
  }

  leave(at: number): void {
    if (this.waiters.length === 0) return
    this.waiters.splice(at % this.waiters.length, 1)
    this.state = Lane.leave(this.state)
  }

  endTurn(end: Lane.TurnEnd): void {
    if (this.turn === undefined) return
    const id = this.turn
    this.turn = undefined
    if (end === "acknowledged") {
      this.broker.push(id)
      this.accepted.add(id)
    }
    const [next, state] = Lane.turnEnded(this.state, end)
    this.state = state
    if (end === "failed") this.queue.push(id)
    if (next === "go") this.turn = this.waiters.shift()
    if (next === "store") this.queue.push(...this.waiters.splice(0))
  }

  beginCommit(): void {
    if (this.committing.length === 0) this.committing = this.queue.splice(0)
  }

  endCommit(holds: boolean): void {
    const batch = this.committing.splice(0)
    if (batch.length === 0) return
    if (holds) {
      this.store.push(...batch)
      for (const id of batch) this.accepted.add(id)
      this.state = Lane.committed(this.state, batch.length)[1]
    } else this.state = Lane.notCommitted(this.state, batch.length)
  }

  /** A transaction of the program commits an event of this lane. */
  found(): void {
    const id = this.next++
    this.store.push(id)
    this.accepted.add(id)
    this.state = Lane.found(this.state)[1]
  }

  /** Reads some, with commits in between, and publishes as many as the broker takes. */
  drain(limit: number, acks: number, commitBetween: boolean): void {
    if (!this.state.draining) return
    this.state = Lane.reading(this.state)
    const rows = this.store.slice(0, limit)
    if (commitBetween) this.endCommit(true)
    const taken = rows.slice(0, acks)
    this.broker.push(...taken)
    this.store = this.store.filter((id) => !taken.includes(id))
    if (taken.length === rows.length) this.state = Lane.drained(this.state, rows.length < limit)[1]
  }
}

it("keeps the order and loses nothing, whatever happens in whichever order", () => {
  const command = fc.oneof(
    { weight: 5, arbitrary: fc.record({ do: fc.constant("arrive" as const), storeFirst: fc.boolean() }) },
    fc.record({ do: fc.constant("leave" as const), at: fc.nat(9) }),
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant("end" as const),
        end: fc.constantFrom<Lane.TurnEnd>("acknowledged", "acknowledged", "failed", "dropped")
      })
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("begin" as const) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("commit" as const), holds: fc.boolean() }) },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant("drain" as const),
        limit: fc.integer({ min: 1, max: 4 }),
        acks: fc.nat(4),
        between: fc.boolean()
      })
    }
  )
  fc.assert(
    fc.property(fc.array(command, { maxLength: 200 }), (commands) => {
      const world = new World()
      for (const one of commands) {
        if (one.do === "arrive") world.arrive(one.storeFirst)
        else if (one.do === "leave") world.leave(one.at)
        else if (one.do === "end") world.endTurn(one.end)
        else if (one.do === "begin") world.beginCommit()
        else if (one.do === "commit") world.endCommit(one.holds)
        else world.drain(one.limit, one.acks, one.between)
        assert.strictEqual(world.state.waiting, world.waiters.length)
        assert.strictEqual(world.state.writing, world.queue.length + world.committing.length)
        assert.strictEqual(world.state.turn, world.turn !== undefined)
        if (world.store.length > 0) assert.isTrue(world.state.stored && world.state.draining)
      }
      // The broker is well again.
      for (let i = 0; i < 1_000 && !Lane.isIdle(world.state); i++) {
        world.endTurn("acknowledged")
        world.beginCommit()
        world.endCommit(true)
        world.drain(3, 3, false)
      }
      assert.isTrue(Lane.isIdle(world.state))
      assert.deepStrictEqual(
        world.broker,
        [...world.broker].sort((a, b) => a - b)
      )
      assert.deepStrictEqual(new Set(world.broker), world.accepted)
    }),
    { numRuns: Sweeps.runs(2_000) }
  )
})

it("goes on after transactions of the program, and publishes all of their events", () => {
  const world = new World()
  world.arrive(false)
  world.found()
  world.arrive(false)
  world.endTurn("acknowledged")
  assert.deepStrictEqual(world.queue, [3], "behind the transaction's event")
  world.drain(2, 2, false)
  world.beginCommit()
  world.endCommit(true)
  world.drain(2, 2, false)
  assert.deepStrictEqual(world.broker, [1, 2, 3])
  assert.isTrue(Lane.isIdle(world.state))
})
