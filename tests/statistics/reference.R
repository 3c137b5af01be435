# The figures of test_against_r.py, by R, limma and multcomp:  Rscript tests/statistics/reference.R
# (Debian: apt-get install r-base-core r-bioc-limma r-cran-multcomp)
suppressMessages({library(limma); library(multcomp)})
options(digits = 12)
set.seed(1)  # of the integration in multcomp

losses <- rbind(
  plain = c(4.5312, 4.5520, 4.5187, 4.5401),
  wr_a  = c(4.4978, 4.5204, 4.4891, 4.5013),
  wr_b  = c(4.5405, 4.5498, 4.5333, 4.5467),
  skip  = c(4.5290, 4.5611, 4.5120, 4.5333),
  gate  = c(4.5151, 4.5283, 4.4958, 4.5322),
  wide  = c(4.6120, 4.5530, 4.5911, 4.6412))
print(R.version.string)
for (package in c("limma", "multcomp", "mvtnorm")) cat(package, as.character(packageVersion(package)), "\n")

long <- data.frame(
  loss = as.vector(t(losses)),
  arm = factor(rep(rownames(losses), each = 4), levels = rownames(losses)),
  seed = factor(rep(1:4, times = 6)))

cat("\n# the two-way model of one variance: contrasts with the plain block, their errors and p (Dunnett)\n")
fit <- lm(loss ~ arm + seed, data = long)
cat("residual variance", sigma(fit)^2, "degrees", df.residual(fit), "\n")
print(summary(fit)$coefficients[2:6, ], digits = 12)
dunnett <- summary(glht(fit, linfct = mcp(arm = "Dunnett")), test = adjusted(abseps = 1e-8, maxpts = 5000000))
print(dunnett$test$pvalues, digits = 12)

cat("\n# the same of three methods, the plain block with all seeds and the others with three of them\n")
unequal <- subset(long, (arm == "plain" | seed != "4") & arm %in% c("plain", "wr_a", "wr_b", "gate"))
unequal$arm <- droplevels(unequal$arm)
fit <- lm(loss ~ arm + seed, data = unequal)
cat("residual variance", sigma(fit)^2, "degrees", df.residual(fit), "\n")
one_way <- lm(loss ~ arm, data = unequal)
print(summary(one_way)$coefficients[2:4, ], digits = 12)
cat("residual variance", sigma(one_way)^2, "degrees", df.residual(one_way), "\n")
dunnett <- summary(glht(one_way, linfct = mcp(arm = "Dunnett")), test = adjusted(abseps = 1e-8, maxpts = 5000000))
print(dunnett$test$pvalues, digits = 12)

cat("\n# moderated variances\n")
residuals <- matrix(residuals(lm(loss ~ arm + seed, data = long)), ncol = 4, byrow = TRUE)
variances <- rowSums(residuals^2) / 2.5  # d = (n - 1)(A - 1)/A
print(setNames(variances, rownames(losses)), digits = 12)
many <- c(0.9, 0.02, 2.1, 0.31, 0.05, 7.7, 0.12, 1.3, 0.44, 3.2, 0.6, 0.27)
for (each in list(list(variances, 2.5), list(many, 4), list(many, c(2, 2, 4, 4, 7, 2, 2, 4, 3, 3, 2, 5)))) {
  moderated <- squeezeVar(each[[1]], each[[2]])
  cat("degrees", each[[2]], "d0", moderated$df.prior, "s0^2", moderated$var.prior, "\n")
  print(unname(moderated$var.post), digits = 12)
}

cat("\n# limma's moderated t of differences of pairs, seed by seed: t, total degrees, p\n")
differences <- sweep(losses[-1, ], 2, losses["plain", ])
fit <- eBayes(lmFit(differences))
cat("d0", fit$df.prior, "s0^2", fit$s2.prior, "\n")
print(data.frame(mean = fit$coefficients[, 1], s2 = fit$sigma^2, post = fit$s2.post, t = fit$t[, 1],
                 degrees = fit$df.total, p = fit$p.value[, 1]), digits = 12)
