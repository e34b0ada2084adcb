/**
 * Lists numeric codes of vendors whose sentences are often not in English, as their documentation lists them.
 *
 * - Zhipu and Z.AI: "Error codes" of the API reference
 * - MiniMax: "Error Codes" of the API reference
 * - Baidu Qianfan: "错误码" of the inference service
 * - iFlytek Spark: "错误码" of the Spark Web API
 * - Baichuan: "错误码" of the API reference
 * - Tencent Hunyuan: "错误码" of the knowledge engine's OpenAI-compatible API
 *
 * A number means something else at each vendor. It counts only together with evidence of the vendor: the name of the
 * provider, the base URL or the model, or an envelope that no other vendor uses. Such a code is prefixed with the
 * vendor's name, for example `zhipu/1305`, and the rules know only prefixed codes.
 */
import type { ErrorFacts } from "../facts/ErrorFacts.ts"
import * as Rule from "./Rule.ts"
import {
  auth,
  badRequest,
  billing,
  contentPolicy,
  contextOverflow,
  modelNotFound,
  overloaded,
  rateLimit,
  revoked,
  serverError,
  timeout
} from "./reasons.ts"

/** Kinds of failures: the reason, and what the vendors' sentences say. */
const kinds = {
  account: [revoked, "The account is inactive, locked or on a block list: a person has to act."],
  key: [auth, "The key is missing, wrong or expired, or may not do this."],
  money: [billing, "Arrears, no balance, or an ended plan."],
  restricted: [
    billing,
    "The account violates a policy of fair usage until a person asks to lift the restriction."
  ],
  rate: [rateLimit, "A limit of concurrency, frequency or tokens, or a quota until it resets."],
  load: [overloaded, "The model or the service has too many callers."],
  timeout: [timeout.total, "Not finished in time."],
  server: [serverError, "The platform broke."],
  model: [modelNotFound, "No such model or interface, or not in this plan."],
  context: [contextOverflow, "The prompt is too long."],
  policy: [contentPolicy, "Sensitive input or output."],
  request: [badRequest, "A parameter is missing or wrong."]
} as const

type Kind = keyof typeof kinds

interface Vendor {
  /** Found in the name of the provider, the base URL and the model, in this order and in lower case. */
  readonly names: RegExp
  readonly codes: { readonly [K in Kind]?: ReadonlyArray<number> }
}

const vendors: Readonly<Record<string, Vendor>> = {
  zhipu: {
    names: /zhipu|bigmodel|\bz[.-]?ai\b|glm/,
    codes: {
      account: [1110, 1111, 1112, 1121],
      key: [1000, 1001, 1002, 1003, 1004, 1220],
      money: [1113, 1309],
      restricted: [1313],
      rate: [1302, 1303, 1304, 1308, 1310],
      load: [1305, 1312],
      server: [1100, 1120, 1200, 1230, 1234],
      model: [1211, 1221, 1222, 1311],
      context: [1261],
      policy: [1300, 1301],
      request: [1210, 1212, 1213, 1214, 1215]
    }
  },
  minimax: {
    names: /minimax|\babab\d/,
    codes: {
      key: [1004, 2049],
      money: [1008],
      rate: [1002, 1039, 1041, 2045, 2056, 2062],
      load: [2064],
      timeout: [1001],
      server: [1000, 1013, 1024, 1033],
      model: [2061],
      policy: [1026, 1027],
      request: [1042, 2013]
    }
  },
  baidu: {
    names: /baidu|qianfan|wenxin|ernie/,
    codes: {
      key: [6, 13, 14, 100, 110, 111],
      money: [19],
      rate: [4, 17, 18, 336_501, 336_502, 336_503],
      load: [2, 336_100],
      server: [1, 336_000],
      context: [336_103],
      request: [3, 336_001, 336_002, 336_003]
    }
  },
  spark: {
    names: /xf-?yun|iflytek|xunfei|^spark\b/,
    codes: {
      account: [10_015],
      key: [10_016, 11_200],
      rate: [10_006, 10_007, 11_201, 11_202, 11_203],
      load: [10_008, 10_110],
      server: [10_000, 10_001, 10_002, 10_009, 10_010, 10_011, 10_012, 10_222],
      context: [10_907],
      policy: [10_013, 10_014, 10_018, 10_019, 10_021],
      request: [10_003, 10_004, 10_005, 10_163]
    }
  },
  baichuan: {
    names: /baichuan/,
    codes: {
      account: [10_200, 10_201, 10_202],
      key: [10_100, 10_101, 10_102, 10_103, 10_104, 10_105, 10_106],
      money: [10_300],
      rate: [10_203],
      server: [10_500],
      policy: [10_400],
      request: [10_000]
    }
  },
  tencent: {
    names: /hunyuan|tencent|lkeap/,
    codes: { money: [20_031], rate: [20_034], context: [20_059] }
  }
}

/** Prefixes of codes that come from an envelope of one vendor: `base_resp.status_code`, `error_code`. */
const envelopes: Readonly<Record<string, string>> = { base_resp: "minimax", error_code: "baidu" }

/** Who was asked, in lower case. */
export interface Origin {
  readonly provider: string
  readonly endpoint: string
  readonly model: string
}

/** A number that is too long for an HTTP status, and a number in brackets in a sentence. */
const number = /^\d{4,6}$/
const bracketed = /[([](\d{4,6})[)\]]/g

/** Zhipu's own numbers, without the small ones that others use differently (1001 closes a WebSocket). */
const isZhipu = (code: string): boolean => Number(code) > 1_100

/** The same facts with the prefixed codes of known vendors. */
export const prefixed = (facts: ErrorFacts, { provider, endpoint, model }: Origin): ErrorFacts => {
  const { codes, text } = facts
  const found: Array<string> = []
  let hasNumber = false
  for (const code of codes) {
    const slash = code.indexOf("/")
    const vendor = slash < 0 ? undefined : envelopes[code.slice(0, slash)]
    if (vendor !== undefined) found.push(`${vendor}${code.slice(slash)}`)
    hasNumber ||= number.test(code)
  }
  const bracket = text.includes(")") || text.includes("]")
  if (!hasNumber && !bracket) return found.length === 0 ? facts : { ...facts, codes: [...found, ...codes] }
  const origin = `${provider} ${endpoint} ${model}`
  const known = Object.keys(vendors).filter((vendor) => vendors[vendor]?.names.test(origin) === true)
  const plain = codes.filter((code) => number.test(code))
  if (known.length > 0) {
    const inText = [...text.matchAll(bracketed)].map(([, code = ""]) => code)
    for (const vendor of known) for (const code of [...plain, ...inText]) found.push(`${vendor}/${code}`)
  } else if (found.length === 0 && mentionsZhipu.test(text)) {
    for (const code of plain.filter(isZhipu)) found.push(`zhipu/${code}`)
  }
  return found.length === 0 ? facts : { ...facts, codes: [...found, ...codes] }
}

/** Chinese, or the name of the platform. */
const mentionsZhipu = /[\u4e00-\u9fff]|bigmodel|z\.ai/

const isKind = (kind: string): kind is Kind => kind in kinds

/** One rule for a kind, over the codes of all vendors. */
const ruleOf = (kind: Kind): Rule.Rule => {
  const [reason, why] = kinds[kind]
  const codes = Object.entries(vendors).flatMap(([vendor, { codes }]) =>
    (codes[kind] ?? []).map((code) => `${vendor}/${code}`)
  )
  return Rule.code({ id: `vendor/${kind}`, why, codes, reason })
}

export const vendorCodes: ReadonlyArray<Rule.Rule> = Object.keys(kinds)
  .filter(isKind)
  .filter((kind) => kind !== "request")
  .map(ruleOf)

/** The sentence beside a code for a wrong parameter may say more, for example that the prompt is too long. */
export const vendorRequests: ReadonlyArray<Rule.Rule> = [ruleOf("request")]
