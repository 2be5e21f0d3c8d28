"""PSVM: sparse kernel SVMs with a chosen number of basis vectors, and `ProjectedSVC`.

J.-X. Peng, K. Rafferty, S. Ferguson, "A fast algorithm for sparse support vector machines for mobile
computing applications", Neurocomputing 230, 2017. The modules in the order of the paper:

===================  =====================================================================
module               content
===================  =====================================================================
`basis`              kernel values between the rows and the basis vectors, K_B and K_{B,S}
`machine`            the SVM on a given basis: Eq. 9 to 16, 25 to 46, 54 to 61, Procedure 2
`candidates`         rows that may join the basis, and sums of their kernel values
`scores`             what a candidate is worth: Eq. 39, 44, 48, 62
`search`             choice of the basis: Procedures 1, 3 and 4
`moving`             beyond the paper: basis vectors that are not training rows
`problems`           one basis for each binary problem, or one for all
`plan`               limits on memory and time
`size_search`        the number of basis vectors, by cross-validation
`path`               models of all sizes that a growing basis passes
`selection`          options, results and stop reasons of the search
`stages`             snapshots of a basis
`classifier_base`    what `ProjectedSVC`, `RSVC` and `SpSVC` share
`projected_svc`      the estimator
===================  =====================================================================
"""
