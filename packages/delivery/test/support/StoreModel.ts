/** A pure model of a store: it answers each command by filtering lists. */
import type { DeliveryStore } from "@outlast/delivery"
import { released } from "#delivery/store/Publisher"

/** An event of the model. The id determines all other fields. */
interface Stored {
  readonly id: string
  readonly publisher: string
  readonly brokerId: string
  readonly rejections: number
}

interface Letter {
  readonly id: string
  readonly number: number
  readonly reason: "rejected" | "shed"
  readonly attempts: number
  readonly state: "dead" | "replayed"
  readonly replays: number
  readonly history: ReadonlyArray<string>
}

interface Holder {
  readonly id: string
  readonly holder: string
  readonly beat: number
}

export interface Model {
  readonly rows: ReadonlyArray<Stored>
  readonly letters: ReadonlyArray<Letter>
  readonly publishers: ReadonlyArray<Holder>
  readonly lastNumber: number
}

export const empty: Model = { rows: [], letters: [], publishers: [], lastNumber: 0 }

/** Ids end with the letter of their subject. */
export const subjectOf = (id: string): string => `s.${id.at(-1)}`

const encoder = new TextEncoder()

export const newRow = (id: string): Parameters<DeliveryStore.Service["insert"]>[1][number] => ({
  id,
  subject: subjectOf(id),
  body: encoder.encode(id.repeat(3)),
  headers: {},
  brokerId: id,
  bytes: 11,
  at: 1_000,
  rejections: 0,
  refusal: ""
})

export const insert = (
  model: Model,
  publisher: string,
  rows: ReadonlyArray<{ readonly id: string; readonly brokerId: string }>
): Model => {
  const all = [...model.rows]
  for (const { id, brokerId } of rows) {
    if (!all.some((row) => row.id === id)) all.push({ id, publisher, brokerId, rejections: 0 })
  }
  return { ...model, rows: all }
}

export const head = (model: Model, owned: ReadonlyArray<string>, subject: string, limit: number) =>
  model.rows
    .filter(({ id, publisher }) => owned.includes(publisher) && subjectOf(id) === subject)
    .slice(0, limit)

export const remove = (model: Model, ids: ReadonlyArray<string>): Model => ({
  ...model,
  rows: model.rows.filter(({ id }) => !ids.includes(id))
})

export const rejected = (model: Model, id: string): Model => ({
  ...model,
  rows: model.rows.map((row) => (row.id === id ? { ...row, rejections: row.rejections + 1 } : row))
})

export const bury = (model: Model, ids: ReadonlyArray<string>, reason: Letter["reason"]): Model => {
  let { letters, lastNumber } = model
  for (const row of model.rows.filter(({ id }) => ids.includes(id))) {
    const before = letters.find(({ id }) => id === row.id)
    letters = letters.filter(({ id }) => id !== row.id)
    letters = [
      ...letters,
      {
        id: row.id,
        number: ++lastNumber,
        reason,
        attempts: row.rejections,
        state: "dead",
        replays: before?.replays ?? 0,
        history: [...(before?.history ?? []), "died"]
      }
    ]
  }
  return { ...remove(model, ids), letters, lastNumber }
}

/** The letters of a subject, or of all, that a replay or a purge takes. */
export const meant = (model: Model, subject: string | undefined): ReadonlyArray<Letter> =>
  model.letters.filter(
    ({ id, state }) => state === "dead" && (subject === undefined || subject === subjectOf(id))
  )

export const replay = (model: Model, subject: string | undefined): Model => {
  const taken = meant(model, subject)
  const rows = taken.map(({ id, number, replays }) => ({
    id,
    brokerId: `${id}#replay-${number}-${replays + 1}`
  }))
  const publishers = model.publishers.some(({ id }) => id === "replay")
    ? model.publishers
    : [...model.publishers, { id: "replay", holder: "", beat: released }]
  return {
    ...insert(model, "replay", rows),
    publishers,
    letters: model.letters.map((letter) =>
      taken.includes(letter)
        ? {
            ...letter,
            state: "replayed",
            replays: letter.replays + 1,
            history: [...letter.history, "replayed"]
          }
        : letter
    )
  }
}

export const purge = (model: Model, subject: string | undefined): Model => {
  const taken = meant(model, subject)
  return { ...model, letters: model.letters.filter((letter) => !taken.includes(letter)) }
}

const withPublisher = (model: Model, one: Holder): Model => ({
  ...model,
  publishers: [...model.publishers.filter(({ id }) => id !== one.id), one]
})

const hasEvents = (model: Model, publisher: string): boolean =>
  model.rows.some((row) => row.publisher === publisher)

export const hold = (model: Model, id: string, holder: string): Model =>
  withPublisher(model, { id, holder, beat: 0 })

export const beat = (model: Model, holder: string): Model => ({
  ...model,
  publishers: model.publishers.map((one) => (one.holder === holder ? { ...one, beat: one.beat + 1 } : one))
})

export const held = (model: Model, holder: string): ReadonlyArray<string> =>
  model.publishers.filter((one) => one.holder === holder).map(({ id }) => id)

/** Lists the publishers of other holders. Adds publishers to the model that are only known by their events. */
export const others = (model: Model, holder: string): readonly [ReadonlyArray<Holder>, Model] => {
  let next = model
  for (const { publisher: id } of model.rows) {
    if (!next.publishers.some((one) => one.id === id)) {
      next = withPublisher(next, { id, holder: "", beat: released })
    }
  }
  const seen = next.publishers.filter((one) => one.holder !== holder)
  return [seen.toSorted((a, b) => (a.id < b.id ? -1 : 1)), next]
}

export const claim = (model: Model, seen: Holder, holder: string): readonly [boolean, Model] => {
  const now = model.publishers.find(({ id }) => id === seen.id)
  return now?.holder === seen.holder && now.beat === seen.beat
    ? [true, hold(model, seen.id, holder)]
    : [false, model]
}

export const release = (model: Model, holder: string): Model => ({
  ...model,
  publishers: model.publishers.flatMap((one) => {
    if (one.holder !== holder) return [one]
    return one.id === "replay" || hasEvents(model, one.id) ? [{ id: one.id, holder: "", beat: released }] : []
  })
})

export const forget = (model: Model, id: string, holder: string): Model => ({
  ...model,
  publishers: model.publishers.filter((one) => one.id !== id || one.holder !== holder || hasEvents(model, id))
})
