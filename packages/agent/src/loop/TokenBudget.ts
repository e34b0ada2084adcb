/**
 * Asks a model to go on that stops long before its token budget, until it adds too little. Pure.
 *
 * The share, the gain and the number of poor gains are those that Claude Code is reported to use.
 */
import { Schema } from "effect"

export const TokenBudget = Schema.Struct({
  /** Output tokens of the run so far, and at the last nudge. */
  output: Schema.Finite,
  nudgedAt: Schema.Finite,
  nudges: Schema.Finite,
  /** Consecutive gains below {@link minGain}. */
  poor: Schema.Finite
})
export type TokenBudget = typeof TokenBudget.Type

export const initial: TokenBudget = { output: 0, nudgedAt: 0, nudges: 0, poor: 0 }

/** Share of the budget from which the model may stop. */
const enough = 0.9
/** A gain below this number of tokens is poor. */
const minGain = 500
/** Consecutive poor gains after which the model is not nudged again. */
const maxPoor = 3

export type Decision =
  | { readonly _tag: "Enough" }
  | { readonly _tag: "Diminishing" }
  | { readonly _tag: "Nudge"; readonly budget: TokenBudget; readonly message: string }

/** The model has stopped by itself. */
export const stopped = (budget: TokenBudget, goal: number): Decision => {
  if (budget.output >= enough * goal) return { _tag: "Enough" }
  const poor = budget.nudges > 0 && budget.output - budget.nudgedAt < minGain ? budget.poor + 1 : 0
  if (poor >= maxPoor) return { _tag: "Diminishing" }
  const share = Math.floor((100 * budget.output) / goal)
  return {
    _tag: "Nudge",
    budget: { ...budget, nudgedAt: budget.output, nudges: budget.nudges + 1, poor },
    message: `You stopped at ${share}% of the token target (${count(budget.output)} of ${count(goal)}). Go on with the work; do not summarise.`
  }
}

const count = (n: number): string => n.toLocaleString("en-US")
