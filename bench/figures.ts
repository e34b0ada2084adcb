/**
 * The tracked ratios of the benches, `figures.json`. A ratio compares contenders of one run, so it can be compared between
 * machines; microseconds cannot.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import type { Row } from "./measure.ts"

const file = new URL("./figures.json", import.meta.url)

/** By bench and row: the ratio to the first contender of its table. */
type Figures = Readonly<Record<string, Readonly<Record<string, number>>>>

const read = (): Figures => (existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {})

/** A ratio that moved by less is noise on a quiet machine: two runs of one commit differ by up to a tenth. */
const noise = 0.15

/** Rows whose ratio is a number, without those that a bench leaves out as noise. */
const trackable = (rows: ReadonlyArray<Row>, untracked: RegExp | undefined): ReadonlyArray<Row> =>
  rows.filter(({ name, ratio }) => Number.isFinite(ratio) && untracked?.test(name) !== true)

/** Lines about the rows that moved, and whether one became slower. */
export const compare = (
  bench: string,
  measured: ReadonlyArray<Row>,
  untracked?: RegExp
): { readonly lines: ReadonlyArray<string>; readonly isSlower: boolean } => {
  const rows = trackable(measured, untracked)
  const tracked = read()[bench] ?? {}
  const moved = rows.flatMap((row) => {
    const before = tracked[row.name]
    if (before === undefined) return [{ by: 0, line: `${row.name}: not tracked, ${row.ratio.toFixed(2)}` }]
    const by = row.ratio / before - 1
    const line = `${row.name}: ${before.toFixed(2)} → ${row.ratio.toFixed(2)} (${(100 * by).toFixed(0)} %)`
    return Math.abs(by) > noise ? [{ by, line }] : []
  })
  const gone = Object.keys(tracked).filter((name) => !rows.some((row) => row.name === name))
  return {
    lines: [...moved.map(({ line }) => line), ...gone.map((name) => `${name}: tracked, but not measured`)],
    isSlower: moved.some(({ by }) => by > noise)
  }
}

/** Tracks the ratios of this run. */
export const update = (bench: string, rows: ReadonlyArray<Row>, untracked?: RegExp): void => {
  const ratios = Object.fromEntries(
    trackable(rows, untracked).map(({ name, ratio }) => [name, Math.round(ratio * 100) / 100])
  )
  writeFileSync(file, `${JSON.stringify({ ...read(), [bench]: ratios }, undefined, 2)}\n`)
}
