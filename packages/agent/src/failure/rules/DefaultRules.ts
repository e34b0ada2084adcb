/**
 * The built-in table, ordered by how much a signal says.
 *
 * 1. local ends of an attempt, and images that the provider rejects;
 * 2. codes with a single meaning;
 * 3. sentences, which are more specific than a general code, a status or the name of a wrapper;
 * 4. codes for a family of errors, and statuses that say what happened;
 * 5. general sentences of transports, and class names of clients;
 * 6. single words, if no status is known;
 * 7. statuses that say only which side failed;
 * 8. a model learned from labelled errors, if nothing else matches.
 */
import type { Rule } from "./Rule.ts"
import { bedrockDecisive, bedrockVague } from "./bedrock.ts"
import { chineseCodes, chineseVague } from "./chinese.ts"
import { chineseTexts } from "./chineseTexts.ts"
import { clientCodes, codes, vagueCodes } from "./codes.ts"
import { aborts, connection } from "./connection.ts"
import { effectAi } from "./effectAi.ts"
import { families } from "./families.ts"
import { grpcDecisive, grpcGeneral, grpcVague } from "./grpc.ts"
import { headers, retryHeaders } from "./headers.ts"
import { learned } from "./learned.ts"
import { limits, rates } from "./limits.ts"
import { media } from "./media.ts"
import { keys, models, secrets, shutDown } from "./models.ts"
import { names, requestNames, wrappers } from "./names.ts"
import { overflows } from "./overflows.ts"
import { own } from "./own.ts"
import { policies } from "./policies.ts"
import { proxies } from "./proxies.ts"
import { requests, validations } from "./requests.ts"
import { decisiveStatuses, statuses, vagueStatuses } from "./statuses.ts"
import { translated } from "./translated.ts"
import { deadlines, timeLimits, transport, unreachable } from "./transport.ts"
import { vendorCodes, vendorRequests } from "./vendorCodes.ts"

export const defaultRules: ReadonlyArray<Rule> = [
  ...own,
  ...media,
  ...codes,
  ...clientCodes,
  ...chineseCodes,
  ...vendorCodes,
  ...bedrockDecisive,
  ...grpcDecisive,
  ...connection,
  ...proxies,
  ...aborts,
  ...headers,
  ...deadlines,
  ...decisiveStatuses,
  ...validations,
  ...limits,
  ...overflows,
  ...secrets,
  ...models,
  ...rates,
  ...shutDown,
  ...policies,
  ...keys,
  ...chineseTexts,
  ...translated,
  ...unreachable,
  ...timeLimits,
  ...retryHeaders,
  ...vagueCodes,
  ...vendorRequests,
  ...chineseVague,
  ...bedrockVague,
  ...grpcVague,
  ...requestNames,
  ...requests,
  ...statuses,
  ...grpcGeneral,
  ...transport,
  ...names,
  ...effectAi,
  ...wrappers,
  ...families,
  ...vagueStatuses,
  ...learned
]
