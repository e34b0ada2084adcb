/**
 * Whether the numbers of a result go somewhere: 3 of 12, 5 of 12; 14 errors, 13 errors.
 *
 * A number that always moves the same way is progress; one that moves to and fro is none (a few turns aside), and neither is
 * one that counts the calls. How long the result is counts as one of its numbers, and so does where it points to. Pure.
 *
 * **What it does not do.** A clock moves one way, too: what `Volatile` knows for one is not a number here.
 */
export interface Numbers {
  readonly lines: number
  readonly place: number
  readonly places: number
  /** How often it tells of what has yet to happen. */
  readonly pending: number
  readonly numbers: ReadonlyArray<number>
  /** Those of them that are one of many, as bits. */
  readonly counted: number
  readonly numbersInAll: number
}

export interface Progress extends Numbers {
  /** How often each has moved, up or, below 0, down; `NaN`: to and fro. None: they were seen once. */
  readonly ways: ReadonlyArray<number>
  /** Steps in which a number has turned. */
  readonly turns: number
  /** Those of the numbers that have stayed once, as bits: they count no calls. */
  readonly stayed: number
}

export const begin = ({
  lines,
  place,
  places,
  pending,
  numbers,
  counted,
  numbersInAll
}: Numbers): Progress => ({
  lines,
  place,
  places,
  pending,
  numbers,
  counted,
  numbersInAll,
  ways: noWays,
  turns: 0,
  stayed: 0
})

const noWays: ReadonlyArray<number> = []

export interface Step {
  readonly progress: Progress
  /** A number has gone on the way that it went. */
  readonly goesOn: boolean
  /** The same, but for errors that are only elsewhere. */
  readonly shrinks: boolean
  /** A number has moved. */
  readonly moved: boolean
  /** One has, and not to and fro. */
  readonly trends: boolean
  /** One counts the calls. */
  readonly ticks: boolean
}

export interface Since {
  /** How many calls were made since, and how many of the same tool. */
  readonly calls: number
  readonly own: number
  /** It says the same, but for the numbers. */
  readonly same: boolean
  /** Both tell of errors. */
  readonly troubled: boolean
  /** Something else was tried since. */
  readonly stirred: boolean
  /** So many things were done again since, and nothing else: what goes up by as much counts them. */
  readonly redone: number
  /** Some of the numbers were never met: they are not just those that were asked for, or written. */
  readonly fresh: boolean
}

/** Lines that a place may move by what is edited above it; further away is another one. */
const near = 3

/** How long it is, where it points to, how many numbers it has, what is pending: these come first among the ways. */
const facts = 4

/** So often it may turn, or there may be more to be done than before: it is begun anew. More often it goes to and fro. */
const mostTurns = 3

export const step = (
  before: Progress,
  now: Numbers,
  { calls, own, same, troubled, stirred, redone, fresh }: Since
): Step => {
  const { numbers } = now
  const ways = new Array<number>(facts + numbers.length)
  let goesOn = false
  let moved = false
  let trends = false
  let ticked = false
  // There is less of it: errors, jobs that are left. Equal lines are one line, but each error has a place of its own.
  const fewer = now.lines === before.lines && troubled ? now.places - before.places : now.lines - before.lines
  ways[0] = wayAfter(before, 0, fewer)
  if (fewer < 0 && (ways[0] ?? 0) < 0) goesOn = true
  // Or there is more and more of what is well: another run comes as far as the one before.
  if (fewer > 0 && (ways[0] ?? 0) > 0 && !troubled) goesOn = true
  // Or errors are elsewhere.
  const away = now.place - before.place
  const isAway = Math.abs(away) > near * now.places
  ways[1] = wayAfter(before, 1, isAway ? away : 0)
  const isElsewhere = isAway && same && troubled && !Number.isNaN(ways[1])
  ways[2] = wayAfter(before, 2, now.numbersInAll - before.numbersInAll)
  // Of several things that are waited for one has happened.
  const done = before.pending - now.pending
  ways[3] = (before.ways[3] ?? 0) + (done < 0 ? 1 : 0)
  if (done > 0 && ways[3] < mostTurns) goesOn = true
  let { turns, stayed } = before
  const movers = moversOf(before, now)
  const least = leastMoves(movers) + (troubled ? 1 : 0)
  // The numbers of something else are others. But so few are mostly about the same: errors, what is left.
  const isCompared = same || (now.numbersInAll <= several && before.numbersInAll === now.numbersInAll)
  const isCheck = stirred && fresh
  const bound = movers <= few && now.numbersInAll <= numbers.length ? boundOf(before, now) : -Infinity
  for (let n = 0; n < numbers.length; n++) {
    const i = facts + n
    const earlier = before.numbers[n]
    const number = numbers[n]
    if (earlier === undefined || number === undefined) {
      ways[i] = Number.NaN
      continue
    }
    const by = number - earlier
    const isPart = ((now.counted >> n) & 1) === 1
    const isBounded = number <= bound && Number.isInteger(number)
    const way = before.ways[i] ?? 0
    // What counts the calls moves with them.
    const ticks =
      !isPart &&
      ((stayed >> n) & 1) === 0 &&
      ((by === calls && !isBounded) || (by === own && own > 1) || (by === redone && !isBounded))
    const stays = by === 0 || ticks
    if (ticks) ticked = true
    if (by === 0) stayed |= 1 << n
    if (!stays) moved = true
    // And 5 of 17 comes after 4 of 17, whatever they are.
    const isNextPart = isPart && (same || isOfSame(before, now, n))
    if (stays || !(isCompared || isNextPart)) {
      ways[i] = way
      continue
    }
    let after = wayAfter(before, i, by)
    // Pods come and go before all are there.
    if (Number.isNaN(after) && !Number.isNaN(way) && before.turns < mostTurns) {
      after = Math.sign(by)
      turns = before.turns + 1
    }
    ways[i] = after
    if (!Number.isNaN(after)) trends = true
    // Once is no direction yet, but for what is counted. And where nothing else was tried there are to be fewer errors.
    const moves = (troubled ? isCheck : same) ? Math.abs(after) : -after
    const counts = (isNextPart || (isBounded && same && (!troubled || stirred))) && !Number.isNaN(after)
    if (moves >= least || counts) goesOn = true
  }
  const { lines, place, places, pending, counted, numbersInAll } = now
  return {
    progress: { lines, place, places, pending, numbers, counted, numbersInAll, ways, turns, stayed },
    goesOn: goesOn || isElsewhere,
    shrinks: goesOn,
    moved,
    trends,
    ticks: ticked
  }
}

/** Whether a number is one of as many as before. */
const isOfSame = (before: Numbers, now: Numbers, n: number): boolean => {
  const whole = now.numbers[n + 1]
  return whole !== undefined && whole === before.numbers[n + 1] && (now.numbers[n] ?? whole) <= whole
}

/** Which way a number moves that moves by so much. */
const wayAfter = ({ ways }: Progress, i: number, by: number): number => {
  const way = ways[i] ?? 0
  if (by === 0) return way
  if (by > 0) return way >= 0 ? way + 1 : way <= -trend ? way + 2 : Number.NaN
  return way <= 0 ? way - 1 : way >= trend ? way - 2 : Number.NaN
}

/** Moves the same way that a step back does not undo. */
const trend = 3

/** Of more numbers that move one may be the part of another that stays only by chance. */
const few = 2

/** So many numbers are mostly about one thing. */
const several = 3

/** Moves the same way that are a direction: of many numbers that move anyhow, one soon seems to have one. */
const leastMoves = (movers: number): number => (movers <= 1 ? 2 : movers <= 3 ? 3 : 4)

/** How many of the first numbers, or of the last, have moved. What one has lost and the next one got is one. */
const moversOf = (before: Numbers, now: Numbers): number => {
  const half = now.numbers.length >> 1
  let first = 0
  let last = 0
  let lost = 0
  for (let n = 0; n < now.numbers.length; n++) {
    const by = (now.numbers[n] ?? 0) - (before.numbers[n] ?? 0)
    if (by === 0) continue
    const isSame = by === -lost
    lost = isSame ? 0 : by
    if (isSame) continue
    if (n < half) first++
    else last++
  }
  return Math.max(first, last)
}

/** The largest number that has stayed: what another may count up to. */
const boundOf = (before: Numbers, now: Numbers): number => {
  let most = -Infinity
  for (let n = 0; n < now.numbers.length; n++) {
    const value = now.numbers[n] ?? Number.NaN
    if (value === before.numbers[n] && value > most && Number.isInteger(value)) most = value
  }
  return most
}
